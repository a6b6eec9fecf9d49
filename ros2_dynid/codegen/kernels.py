# SPDX-License-Identifier: Apache-2.0

"""C source of the compiled backend: single calls and batches, in blocks of samples that the compiler vectorises.

A block of samples is transposed so that sample i of every quantity is element i of an array; sines and cosines of a
block are computed by polynomials without branches; then loops over the block do the arithmetic of the graph. The last
block of a batch overlaps the one before instead of being shorter, so every loop has the same constant length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from ros2_dynid.codegen.compiled import BLOCK
from ros2_dynid.codegen.emit_c import constant_lines
from ros2_dynid.codegen.functions import torque
from ros2_dynid.codegen.graph import COS, SIN, VAR, Expr, Graph
from ros2_dynid.codegen.loop_code import close_in_c, ratios_in_c
from ros2_dynid.codegen.loop_expressions import JOINTS
from ros2_dynid.codegen.operation_search import generate, starting_constants
from ros2_dynid.codegen.regressor_expressions import energy_row, regressor_columns
from ros2_dynid.codegen.representation import space_of
from ros2_dynid.codegen.text import Code, code_of
from ros2_dynid.model.parameters import JOINT, standard_names
from ros2_dynid.model.robot import Robot

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
        if ((in[k] = taken(args[k], 1, -1, k ? N_ACTIVE : N_POSITIONS)) == NULL)
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
        if ((in[k] = taken(args[k], 2, k ? PyArray_DIM(in[0], 0) : -1, k ? N_ACTIVE : N_POSITIONS)) == NULL)
            goto done;
    out = PyArray_SimpleNew(2, PyArray_DIMS(in[1]), NPY_DOUBLE);
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

static int fill_module(PyObject *module)
{
    import_array1(-1);
    PyObject *type = PyType_FromSpec(&torque_spec);
    const int failed = type == NULL ? -1 : PyModule_AddObjectRef(module, "Torque", type);
    Py_XDECREF(type);
    return failed;
}

#ifdef WITH_LOOPS
/* close(q, joints) -> bool: joints, closed positions of all joints, go to those at q, or stay as they are. */
static PyObject *close_python(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyArrayObject *q = NULL, *joints = NULL;
    PyObject *result = NULL;
    (void)self;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "give q and joints");
        return NULL;
    }
    if ((q = taken(args[0], 1, -1, N_ACTIVE)) != NULL && (joints = taken(args[1], 1, -1, N_POSITIONS)) != NULL) {
        if ((PyObject *)joints == args[1] && PyArray_ISWRITEABLE(joints))
            result = PyBool_FromLong(close_loops((const double *)PyArray_DATA(q), (double *)PyArray_DATA(joints)));
        else
            PyErr_SetString(PyExc_ValueError, "joints is no writable array of doubles");
    }
    Py_XDECREF(q);
    Py_XDECREF(joints);
    return result;
}

/* ratios(joints): dq/dq_active of all joints, row by row. */
static PyObject *ratios_python(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    static const npy_intp shape[2] = {N_POSITIONS, N_ACTIVE};
    PyArrayObject *joints = NULL;
    PyObject *G = NULL;
    (void)self;
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "give joints");
        return NULL;
    }
    if ((joints = taken(args[0], 1, -1, N_POSITIONS)) == NULL)
        return NULL;
    if ((G = PyArray_SimpleNew(2, shape, NPY_DOUBLE)) != NULL)
        loop_ratios((const double *)PyArray_DATA(joints), (double *)PyArray_DATA((PyArrayObject *)G));
    Py_DECREF(joints);
    return G;
}

static PyMethodDef methods[] = {
    {"ratios", (PyCFunction)(void (*)(void))ratios_python, METH_FASTCALL, "ratios(joints): dq/dq_active"},
    {"close", (PyCFunction)(void (*)(void))close_python, METH_FASTCALL, "close(q, joints) -> bool"},
    {NULL, NULL, 0, NULL}};
#else
static PyMethodDef methods[] = {{NULL, NULL, 0, NULL}};
#endif
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
static int fill_module(PyObject *module)
{
    (void)module;
    import_array1(-1);
    return 0;
}
#endif
"""

PYTHON_MODULE = r"""
#ifdef DYNID_PYTHON
/* Initialised in two phases: a module of one phase is filled anew by the next library that is loaded by this name. */
static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynid_kernel", NULL, 0, methods, slots,
                                        NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_dynid_kernel(void)
{
    return PyModuleDef_Init(&definition);
}
#endif
"""


EFFORT = 25
"""Forms counted for the torque: enough to come near the fewest operations, and soon ready."""
_STYLE = {
    "sin": "sin({x})",
    "cos": "cos({x})",
    "sign": "(double)(({x} > 0.0) - ({x} < 0.0))",
    "inverse_root": "(1.0 / sqrt(fabs({x})))",
    "inverse": "(1.0 / ({x}))",
}
Target = tuple[str, Expr]


def torque_source(robot: Robot) -> str:
    """Return the C source of inverse dynamics for any standard parameters chi: prepare, torque_one, torque_batch."""
    names = standard_names(robot)
    space = space_of(robot)
    generated = generate(torque, robot, space, starting_constants(space, np.eye(len(names))), EFFORT)
    graph, outputs = generated.graph, generated.outputs
    angles = _angles(graph, outputs)
    n = len(outputs)
    one = _code(graph, [(f"tau[{k}]", e) for k, e in enumerate(outputs)], angles, "{array}[{index}]", "[{k}]")
    block = _code(
        graph, [(f"tau[{k}][i]", e) for k, e in enumerate(outputs)], angles, "{array}[{index}][i]", "[{k}][i]"
    )
    assert [expr.node for _, expr in one.constants] == [expr.node for _, expr in block.constants]  # by other names
    constants = max(len(one.constants), 1)
    padded = -(-max(len(angles), 1) // 4) * 4
    position = "q" if robot.loops is None else JOINTS
    positions = n if robot.loops is None else robot.n
    sizes = {"N_POSITIONS": positions, "N_STANDARD": len(names), "N_CONSTANTS": constants}
    lines = [*_head(n, sizes), SINCOS]
    if robot.loops is not None:
        lines += ["#define WITH_LOOPS", *close_in_c(robot, "close_loops", "DYNID_PUBLIC ")]
        lines += ratios_in_c(robot, "loop_ratios", "DYNID_PUBLIC ")
    lines += ["DYNID_PUBLIC void prepare(const double *restrict parameters, double *restrict constants)", "{"]
    lines += constant_lines(generated, one.constants, "double", 0)
    lines += ["    (void)parameters;", "    (void)constants;", "}", ""]
    lines += [
        f"DYNID_PUBLIC void torque_one(const double *restrict {position}, const double *restrict dq,",
        "                const double *restrict ddq,",
        "                const double *restrict constants, double *restrict tau)",
        "{",
        *_read_constants(one),
        f"    double angle[{padded}] = {{0.0}}, sn[{padded}], cs[{padded}];",
        "    {",
        *(f"        {line}" for line in _angle_lines(graph, angles, "{array}[{index}]", "angle[{k}]")),
        "    }",
        f"    sincos_array(angle, sn, cs, {padded});",
        *_lines(one, "    "),
        *(f"    (void){array};" for array in (position, "dq", "ddq", "constants", "sn", "cs")),
        "}",
        "",
    ]
    lines += _batch_head(
        "torque_batch", (position, "dq", "ddq"), ", const double *restrict constants, double *restrict out"
    )
    lines += [*_read_constants(block), f"    double {position}[{positions}][BLOCK];"]
    lines += [f"    double dq[{n}][BLOCK], ddq[{n}][BLOCK], tau[{n}][BLOCK];"]
    body = [
        *_load((position,), "N_POSITIONS"),
        *_load(("dq", "ddq")),
        *_angle_block(graph, angles),
        *_loop(_lines(block, "            ")),
        "        for (int i = 0; i < count; ++i)",
        "            for (int j = 0; j < N_ACTIVE; ++j)",
        "                out[(start + (size_t)i) * N_ACTIVE + (size_t)j] = tau[j][i];",
    ]
    lines += [*_blocks(body, len(angles)), "    (void)constants;", "}", "", PYTHON_COMMON, PYTHON_TORQUE, PYTHON_MODULE]
    return "\n".join(lines)


def regressor_source(robot: Robot) -> str:
    """Return the C source of the regressor of all standard parameters, results ordered (column, joint, sample)."""
    graph = Graph()
    columns = regressor_columns(graph, robot)
    n = len(robot.active)
    groups: dict[int, list[Target]] = {}
    for c, column in enumerate(columns):
        group = min(c // JOINT, robot.n)  # the columns of a link share most of their work
        groups.setdefault(group, []).extend((f"{c * n + i}", entry) for i, entry in enumerate(column))
    return _fill_source(robot, graph, list(groups.values()), ("q", "dq", "ddq"), len(columns) * n)


def energy_source(robot: Robot) -> str:
    """Return the C source of the energy's row h of all standard parameters, results ordered (column, sample)."""
    graph = Graph()
    row = energy_row(graph, robot)
    return _fill_source(robot, graph, [[(str(k), e) for k, e in enumerate(row)]], ("q", "dq"), len(row))


def _fill_source(
    robot: Robot, graph: Graph, groups: Sequence[Sequence[Target]], inputs: tuple[str, ...], rows: int
) -> str:
    """Return the source of a batch function that writes row `target` of its results for each output that is not zero.

    What several groups need is computed first and kept for the block; then each group has a loop of its own.
    """
    groups = [[(target, expr) for target, expr in group if not expr.is_zero] for group in groups]
    groups = [group for group in groups if group]
    outputs = [expr for group in groups for _, expr in group]
    angles = _angles(graph, outputs)
    known = _known_angles(graph, angles, "[{k}][i]")
    shared = _shared_nodes(graph, groups, known)
    places = {node: f"kept[{k}][i]" for k, node in enumerate(shared)}
    n = len(robot.active)
    lines = [*_head(n, {"N_ROWS": rows, "N_INPUTS": len(inputs)}), SINCOS]
    lines += _batch_head("fill_batch", inputs, ", double *restrict out")
    lines += [f"    double {', '.join(f'{array}[{n}][BLOCK]' for array in inputs)};"]
    lines += [f"    double kept[{max(len(shared), 1)}][BLOCK];"]
    first = code_of(
        graph,
        [(places[node], Expr(graph, node)) for node in shared],
        functions=_STYLE,
        index="{array}[{index}][i]",
        available=known,
    )
    body = [*_load(inputs), *_angle_block(graph, angles)]
    if shared:
        body += _loop(_lines(first, "            "))
    for group in groups:
        targets = [(f"at[{target} * samples + (size_t)i]", expr) for target, expr in group]
        code = code_of(graph, targets, functions=_STYLE, index="{array}[{index}][i]", available={**known, **places})
        body += _loop(_lines(code, "            "))
    body.insert(0, "        double *restrict at = out + start;")
    lines += [*_blocks(body, len(angles)), "    (void)kept;", "}", "", PYTHON_COMMON, PYTHON_FUNCTION, PYTHON_MODULE]
    return "\n".join(lines)


def _shared_nodes(graph: Graph, groups: Sequence[Sequence[Target]], known: Mapping[int, str]) -> list[int]:
    """Return computed nodes that more than one group needs and that some group uses directly."""
    needed_nodes = [set(graph.needed((expr for _, expr in group), known)) for group in groups]
    times = Counter(node for nodes in needed_nodes for node in nodes)

    def is_shared(node: int) -> bool:
        key = graph.keys[node]
        return times[node] > 1 and not graph.constant[node] and node not in known and key[0] != VAR

    frontier: set[int] = set()
    for nodes, group in zip(needed_nodes, groups, strict=True):
        direct = {expr.node for _, expr in group}
        for node in nodes:
            if not is_shared(node) and node not in known:
                direct.update(graph.operands(node))
        frontier.update(node for node in direct if node in nodes and is_shared(node))
    return sorted(frontier)


def _head(n: int, sizes: Mapping[str, int]) -> list[str]:
    return [
        "#ifdef DYNID_PYTHON",
        "#define PY_SSIZE_T_CLEAN",
        "#include <Python.h>",
        "#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION",
        "#include <numpy/arrayobject.h>",
        "#define DYNID_PUBLIC static",
        "#else",
        "#define DYNID_PUBLIC",
        "#endif",
        "#include <math.h>",
        "#include <stddef.h>",
        "#include <stdint.h>",
        "#include <string.h>",
        "",
        f"enum {{ BLOCK = {BLOCK}, N_ACTIVE = {n}, " + ", ".join(f"{k} = {v}" for k, v in sizes.items()) + " };",
    ]


def _angles(graph: Graph, outputs: Sequence[Expr]) -> list[int]:
    """Return the nodes of which sine or cosine is needed."""
    angle_nodes = [graph.keys[node][1] for node in graph.needed(outputs) if graph.keys[node][0] in (SIN, COS)]
    return list(dict.fromkeys(angle_nodes))  # type: ignore[arg-type]


def _known_angles(graph: Graph, angles: Sequence[int], suffix: str) -> dict[int, str]:
    texts = {}
    for node, key in enumerate(graph.keys):
        if key[0] in (SIN, COS) and key[1] in angles:
            array = "sn" if key[0] == SIN else "cs"
            texts[node] = array + suffix.format(k=angles.index(key[1]))
    return texts


def _code(graph: Graph, targets: Sequence[Target], angles: Sequence[int], index: str, suffix: str) -> Code:
    return code_of(graph, targets, functions=_STYLE, index=index, available=_known_angles(graph, angles, suffix))


def _read_constants(code: Code) -> list[str]:
    return [f"    const double {name} = constants[{k}];" for k, (name, _) in enumerate(code.constants)]


def _lines(code: Code, indent: str) -> list[str]:
    return [f"{indent}const double {s.name} = {s.text};" for s in code.statements] + [
        f"{indent}{s.name} = {s.text};" for s in code.outputs
    ]


def _angle_lines(graph: Graph, angles: Sequence[int], index: str, target: str) -> list[str]:
    targets = [(target.format(k=k), Expr(graph, node)) for k, node in enumerate(angles)]
    return _lines(code_of(graph, targets, functions=_STYLE, index=index), "")


def _angle_block(graph: Graph, angles: Sequence[int]) -> list[str]:
    if not angles:
        return []
    lines = _loop(
        [f"            {line}" for line in _angle_lines(graph, angles, "{array}[{index}][i]", "angle[{k}][i]")]
    )
    return [*lines, f"        sincos_array(&angle[0][0], &sn[0][0], &cs[0][0], {len(angles)} * BLOCK);"]


def _loop(body: Sequence[str]) -> list[str]:
    return ["        DYNID_VECTORISE", "        for (int i = 0; i < BLOCK; ++i) {", *body, "        }"]


def _batch_head(name: str, inputs: Sequence[str], rest: str) -> list[str]:
    arrays = ", ".join(f"const double *restrict {array}_in" for array in (*inputs, *(["unused"] * (3 - len(inputs)))))
    unused = [] if len(inputs) == 3 else ["    (void)unused_in;"]
    return [
        "#if defined(__clang__)",
        '#define DYNID_VECTORISE _Pragma("clang loop vectorize(enable)")',
        "#else",
        '#define DYNID_VECTORISE _Pragma("GCC ivdep")',
        "#endif",
        f"DYNID_PUBLIC void {name}(const size_t samples, {arrays}{rest})",
        "{",
        *unused,
    ]


def _load(inputs: Sequence[str], columns: str = "N_ACTIVE") -> list[str]:
    moves = [f"                {a}[j][i] = {a}_in[(start + (size_t)i) * {columns} + (size_t)j];" for a in inputs]
    return [
        "        for (int i = 0; i < count; ++i)",
        f"            for (int j = 0; j < {columns}; ++j) {{",
        *moves,
        "            }",
    ]


def _blocks(body: Sequence[str], angles: int) -> list[str]:
    """Return the loop over blocks; fewer samples than a block are the caller's to fill up."""
    k = max(angles, 1)
    return [
        f"    double angle[{k}][BLOCK], sn[{k}][BLOCK], cs[{k}][BLOCK];",
        "    for (size_t block = 0; block * BLOCK < samples; ++block) {",
        "        const size_t end = (block + 1) * BLOCK < samples ? (block + 1) * BLOCK : samples;",
        "        const size_t start = end < BLOCK ? 0 : end - BLOCK;",
        "        const int count = BLOCK;",
        *body,
        "    }",
        "    (void)angle;",
        "    (void)sn;",
        "    (void)cs;",
    ]


SOURCES = {"torque": torque_source, "regressor": regressor_source, "energy": energy_source}
"""By kind: what makes the C source of a robot. Batches need at least BLOCK samples."""
