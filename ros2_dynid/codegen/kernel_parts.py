# SPDX-License-Identifier: Apache-2.0

"""Parts of the compiled backend's C source that are the same for every robot."""

from __future__ import annotations

SINCOS = r"""
/* sin and cos of an array: reduction by multiples of pi/2 in three parts, then the minimax polynomials of fdlibm; no
 * branches, so that the loop vectorises. Beyond 1e6 rad the reduction loses digits and the library is called. */
static inline void sincos_array(const double *restrict x, double *restrict s, double *restrict c, const int count)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer, found in the low bits */
    int far = 0;
    for (int i = 0; i < count; ++i) {
        const double t = x[i] * 0.63661977236758134308 + magic;
        const double n = t - magic;
        const double r = ((x[i] - n * 1.57079632673412561417e+00) - n * 6.07710050630396597660e-11)
                         - n * 2.02226624879595063154e-21;
        const double z = r * r;
        const double sine = r + r * z * (-1.66666666666666324348e-01 + z * (8.33333333332248946124e-03
            + z * (-1.98412698298579493134e-04 + z * (2.75573137070700676789e-06
            + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
        const double cosine = 1.0 - (0.5 * z - z * z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03
            + z * (2.48015872894767294178e-05 + z * (-2.75573143513906633035e-07
            + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
        uint64_t k, a, b;
        memcpy(&k, &t, 8);
        memcpy(&a, &sine, 8);
        memcpy(&b, &cosine, 8);
        const uint64_t swap = (uint64_t)0 - (k & 1u);
        const uint64_t sb = ((a & ~swap) | (b & swap)) ^ ((k & 2u) << 62);
        const uint64_t cb = ((b & ~swap) | (a & swap)) ^ (((k + 1u) & 2u) << 62);
        memcpy(&s[i], &sb, 8);
        memcpy(&c[i], &cb, 8);
        far |= !(fabs(x[i]) < 1e6);
    }
    if (far)
        for (int i = 0; i < count; ++i) {
            s[i] = sin(x[i]);
            c[i] = cos(x[i]);
        }
}
"""

PYTHON_COMMON = r"""
#ifdef DYNID_PYTHON
/* One argument as an array of doubles, C order, of the shape asked for (rows < 0: any number): a new reference. */
static PyArrayObject *taken(PyObject *object, const int dimensions, const npy_intp rows, const npy_intp columns)
{
    PyArrayObject *array;
    if (PyArray_Check(object) && PyArray_TYPE((PyArrayObject *)object) == NPY_DOUBLE
        && PyArray_ISCARRAY_RO((PyArrayObject *)object)) {
        array = (PyArrayObject *)object;
        Py_INCREF(array);
    } else {
        array = (PyArrayObject *)PyArray_FROMANY(object, NPY_DOUBLE, 0, 0, NPY_ARRAY_CARRAY_RO);
        if (array == NULL)
            return NULL;
    }
    if (PyArray_NDIM(array) != dimensions || PyArray_DIM(array, dimensions - 1) != columns
        || (dimensions == 2 && rows >= 0 && PyArray_DIM(array, 0) != rows)) {
        PyErr_Format(PyExc_ValueError, "an array has the wrong shape; give %s of %zd columns",
                     dimensions == 1 ? "one row" : "equal rows", (Py_ssize_t)columns);
        Py_DECREF(array);
        return NULL;
    }
    return array;
}
#endif
"""

PYTHON_TORQUE = r"""
#ifdef DYNID_PYTHON
typedef struct {
    PyObject_HEAD
    double constants[N_CONSTANTS];
} Torque;

static PyObject *torque_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *object;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O", &object))
        return NULL;
    PyArrayObject *chi = taken(object, 1, -1, N_STANDARD);
    if (chi == NULL)
        return NULL;
    Torque *self = (Torque *)type->tp_alloc(type, 0);
    if (self != NULL)
        prepare((const double *)PyArray_DATA(chi), self->constants);
    Py_DECREF(chi);
    return (PyObject *)self;
}

static PyObject *torque_call(Torque *self, PyObject *const *args, Py_ssize_t count)
{
    static const npy_intp shape[1] = {N_ACTIVE};
    PyArrayObject *in[3] = {NULL, NULL, NULL};
    PyObject *out = NULL;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "give q, dq and ddq");
        return NULL;
    }
    for (int k = 0; k < 3; ++k)
        if ((in[k] = taken(args[k], 1, -1, N_ACTIVE)) == NULL)
            goto done;
    out = PyArray_SimpleNew(1, shape, NPY_DOUBLE);
    if (out != NULL)
        torque_one((const double *)PyArray_DATA(in[0]), (const double *)PyArray_DATA(in[1]),
                   (const double *)PyArray_DATA(in[2]), self->constants, (double *)PyArray_DATA((PyArrayObject *)out));
done:
    for (int k = 0; k < 3; ++k)
        Py_XDECREF(in[k]);
    return out;
}

static PyObject *torque_rows(Torque *self, PyObject *const *args, Py_ssize_t count)
{
    PyArrayObject *in[3] = {NULL, NULL, NULL};
    PyObject *out = NULL;
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "give q, dq and ddq");
        return NULL;
    }
    for (int k = 0; k < 3; ++k)
        if ((in[k] = taken(args[k], 2, k ? PyArray_DIM(in[0], 0) : -1, N_ACTIVE)) == NULL)
            goto done;
    out = PyArray_SimpleNew(2, PyArray_DIMS(in[0]), NPY_DOUBLE);
    if (out != NULL) {
        const size_t samples = (size_t)PyArray_DIM(in[0], 0);
        const double *q = (const double *)PyArray_DATA(in[0]), *dq = (const double *)PyArray_DATA(in[1]);
        const double *ddq = (const double *)PyArray_DATA(in[2]);
        double *tau = (double *)PyArray_DATA((PyArrayObject *)out);
        Py_BEGIN_ALLOW_THREADS
        torque_batch(samples, q, dq, ddq, self->constants, tau);
        Py_END_ALLOW_THREADS
    }
done:
    for (int k = 0; k < 3; ++k)
        Py_XDECREF(in[k]);
    return out;
}

static void torque_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef torque_methods[] = {
    {"torque", (PyCFunction)(void (*)(void))torque_call, METH_FASTCALL, "tau of one sample: torque(q, dq, ddq)"},
    {"torques", (PyCFunction)(void (*)(void))torque_rows, METH_FASTCALL, "tau of many samples: torques(q, dq, ddq)"},
    {NULL, NULL, 0, NULL}};

static PyType_Slot torque_slots[] = {{Py_tp_new, (void *)torque_new}, {Py_tp_dealloc, (void *)torque_free},
                                     {Py_tp_methods, torque_methods},
                                     {Py_tp_doc, (void *)"Torque(chi): inverse dynamics of one robot"}, {0, NULL}};
static PyType_Spec torque_spec = {"dynid_kernel.Torque", sizeof(Torque), 0, Py_TPFLAGS_DEFAULT, torque_slots};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "dynid_kernel", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_dynid_kernel(void)
{
    import_array();
    PyObject *m = PyModule_Create(&module);
    PyObject *type = m == NULL ? NULL : PyType_FromSpec(&torque_spec);
    if (type == NULL || PyModule_AddObject(m, "Torque", type) < 0) {
        Py_XDECREF(type);
        Py_XDECREF(m);
        return NULL;
    }
    return m;
}
#endif
"""

PYTHON_FUNCTION = r"""
#ifdef DYNID_PYTHON
/* The array that results are written to: doubles, C order, writable, `size` elements. */
static double *target(PyObject *object, const npy_intp size)
{
    PyArrayObject *array = (PyArrayObject *)object;
    if (!PyArray_Check(object) || PyArray_TYPE(array) != NPY_DOUBLE || !PyArray_ISCARRAY(array)
        || PyArray_SIZE(array) != size) {
        PyErr_SetString(PyExc_ValueError, "the array for the result has the wrong type or size");
        return NULL;
    }
    return (double *)PyArray_DATA(array);
}

/* fill(q, dq[, ddq], out): results of all samples, samples last, into out. */
static PyObject *fill(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyArrayObject *in[N_INPUTS];
    PyObject *result = NULL;
    (void)self;
    for (int k = 0; k < N_INPUTS; ++k)
        in[k] = NULL;
    if (count != N_INPUTS + 1) {
        PyErr_SetString(PyExc_TypeError, "wrong number of arrays");
        return NULL;
    }
    for (int k = 0; k < N_INPUTS; ++k)
        if ((in[k] = taken(args[k], 2, k ? PyArray_DIM(in[0], 0) : -1, N_ACTIVE)) == NULL)
            goto done;
    const size_t samples = (size_t)PyArray_DIM(in[0], 0);
    double *out = target(args[N_INPUTS], (npy_intp)samples * N_ROWS);
    if (out == NULL)
        goto done;
    const double *data[3] = {NULL, NULL, NULL};
    for (int k = 0; k < N_INPUTS; ++k)
        data[k] = (const double *)PyArray_DATA(in[k]);
    Py_BEGIN_ALLOW_THREADS
    fill_batch(samples, data[0], data[1], data[2], out);
    Py_END_ALLOW_THREADS
    Py_INCREF(Py_None);
    result = Py_None;
done:
    for (int k = 0; k < N_INPUTS; ++k)
        Py_XDECREF(in[k]);
    return result;
}

static PyMethodDef methods[] = {{"fill", (PyCFunction)(void (*)(void))fill, METH_FASTCALL, "fill(q, dq[, ddq], out)"},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "dynid_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_dynid_kernel(void)
{
    import_array();
    return PyModule_Create(&module);
}
#endif
"""
