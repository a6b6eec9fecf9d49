/* SPDX-License-Identifier: Apache-2.0
 *
 * Drives in closed loop along held commands with derivatives by their parameters: the compiled form of simulation.py.
 * Derivatives leave out how the load on a gear follows the motion, and jumps where a joint begins to stick.
 * Each joint of each stretch of each variant is simulated alone. Arrays are contiguous, in the order of their comments.
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

enum { COMPLIANCE, INERTIA, DAMPING, COULOMB, BIAS, DELAY, REACH, OWN };
#define MAX_RATIOS 32

typedef struct {
  ptrdiff_t variants, stretches, joints, ratios, steps, slots, terms, points;
  const ptrdiff_t *active;                       /* variants, joints: which are simulated */
  const double *ratio;                           /* ratios, variants, joints */
  const double *step, *begin, *y, *v;            /* stretches; stretches; stretches, joints; the same */
  const double *rigid_q, *mass, *torque, *stiff; /* stretches, joints, steps */
  const double *time, *command;                  /* samples; joints, samples: commands of all recordings */
  const ptrdiff_t *first, *last;                 /* stretches: the samples of its recording */
  ptrdiff_t samples;
  const double *column, *slope;                  /* terms, points: over sqrt(|v| / top_speed) */
  const ptrdiff_t *loaded;                       /* terms */
  double top_speed;
  const ptrdiff_t *sample_first;                 /* stretches + 1: its outputs in at, share, slot */
  const ptrdiff_t *at, *slot;
  const double *share;
  double *out_y, *out_slope;                     /* variants, stretches, joints, slots; ..., slots, ratios */
  double *out_q, *out_v, *out_force;             /* variants, stretches, joints, steps + 1; the same; ..., steps; or NULL */
} Job;

typedef struct { const double *time, *command; ptrdiff_t index, last; double held; double area; } Held;

/* Advance to time t and return the integral of the held command up to there. */
static double integral(Held *h, double t) {
  while (h->index < h->last && h->time[h->index + 1] <= t) {
    h->area += (h->time[h->index + 1] - h->time[h->index]) * h->command[h->index];
    h->index++;
  }
  h->held = h->command[h->index];
  return h->area + h->held * (t - h->time[h->index]);
}

static void look_up(const Job *job, ptrdiff_t term, double speed, double *column, double *slope) {
  double place = sqrt(speed / job->top_speed) * (double)(job->points - 1);
  if (place > (double)(job->points - 1)) place = (double)(job->points - 1);
  ptrdiff_t k = (ptrdiff_t)place;
  if (k > job->points - 2) k = job->points - 2;
  const double w = place - (double)k, *c = job->column + term * job->points + k, *s = job->slope + term * job->points + k;
  *column = (1.0 - w) * c[0] + w * c[1];
  *slope = (1.0 - w) * s[0] + w * s[1];
}

static void simulate_joint(const Job *job, ptrdiff_t variant, ptrdiff_t b, ptrdiff_t j) {
  const ptrdiff_t K = job->ratios, n = job->joints, row = b * n + j;
  double p[MAX_RATIOS], Sq[MAX_RATIOS] = {0}, Sv[MAX_RATIOS] = {0}, S[MAX_RATIOS], next[MAX_RATIOS], columns[MAX_RATIOS];
  for (ptrdiff_t i = 0; i < K; i++) p[i] = job->ratio[(i * job->variants + variant) * n + j];
  const double h = job->step[b], reach = p[REACH];
  const double *rigid_q = job->rigid_q + row * job->steps, *mass = job->mass + row * job->steps;
  const double *torque = job->torque + row * job->steps, *stiff = job->stiff + row * job->steps;
  Held held = {job->time, job->command + j * job->samples, job->first[b], job->last[b], 0.0, 0.0};
  double before = integral(&held, job->begin[b] - p[DELAY]), held_before = held.held;
  double q = job->y[row] - p[BIAS], v = job->v[row], acceleration = 0.0;
  Sq[BIAS] = -1.0;
  const ptrdiff_t out = (variant * job->stretches + b) * n + j;
  double *motion_q = job->out_q ? job->out_q + out * (job->steps + 1) : NULL;
  double *motion_v = job->out_q ? job->out_v + out * (job->steps + 1) : NULL;
  double *force = job->out_q ? job->out_force + out * job->steps : NULL;
  ptrdiff_t sample = job->sample_first[b];
  const ptrdiff_t end = job->sample_first[b + 1];
  for (ptrdiff_t k = 0; k < job->steps; k++) {
    if (motion_q) { motion_q[k] = q; motion_v[k] = v; }
    else if (sample == end) return;
    const double after = integral(&held, job->begin[b] + h * (double)(k + 1) - p[DELAY]);
    const double command = (after - before) / h, command_slope = -(held.held - held_before) / h;
    before = after;
    held_before = held.held;
    const double error = command - q - 0.5 * h * v;
    const int is_free = fabs(error) < reach;
    const double limit = error > 0.0 ? 1.0 : error < 0.0 ? -1.0 : 0.0;
    const double inertia = (p[COMPLIANCE] * mass[k] + p[INERTIA]) / h, deviation = q - rigid_q[k];
    const double spring = is_free + p[COMPLIANCE] * stiff[k];
    const double resist = 0.5 * p[DAMPING] + 0.25 * h * spring;
    const double A = inertia + resist, B = inertia - resist;
    const double drive = is_free ? command - q : limit * reach;
    const double rest = B * v + drive - p[COMPLIANCE] * (torque[k] + stiff[k] * deviation);
    const double load = h * inertia * acceleration + p[COMPLIANCE] * torque[k];
    double friction = p[COULOMB], by_speed = 0.0, by_load = 0.0;
    for (ptrdiff_t i = 0; i < job->terms; i++) {
      double column, slope;
      look_up(job, i, fabs(v), &column, &slope);
      const double scale = job->loaded[i] ? fabs(load) : 1.0;
      if (job->loaded[i]) by_load += p[OWN + i] * column;
      columns[i] = column * scale;
      friction += p[OWN + i] * columns[i];
      by_speed += p[OWN + i] * slope * scale;
    }
    if (friction < 0.0) friction = 0.0;
    const int sliding = fabs(rest) > friction && A > 0.0;
    const double sign = rest > 0.0 ? 1.0 : -1.0;
    const double new_v = sliding ? (rest - sign * friction) / A : 0.0, mean = 0.5 * (new_v + v);
    const double new_acceleration = (new_v - v) / h, turn = v > 0.0 ? 1.0 : v < 0.0 ? -1.0 : 0.0;
    const double q_before = q;
    q += h * mean;
    if (job->out_y) {
      memset(S, 0, sizeof S);
      if (sliding) {
        const double by_v = B - sign * by_speed * turn;
        for (ptrdiff_t i = 0; i < K; i++) S[i] = by_v * Sv[i] - spring * Sq[i];
        const double load_sign = sign * by_load * (load > 0.0 ? 1.0 : -1.0);
        S[COMPLIANCE] -= mass[k] * new_acceleration + torque[k] + stiff[k] * (deviation + 0.5 * h * mean);
        S[COMPLIANCE] -= load_sign * (mass[k] * acceleration + torque[k]);
        S[INERTIA] -= new_acceleration + load_sign * acceleration;
        S[DAMPING] -= mean;
        S[COULOMB] -= sign;
        if (is_free) S[DELAY] += command_slope; else S[REACH] += limit;
        for (ptrdiff_t i = 0; i < job->terms; i++) S[OWN + i] -= sign * columns[i];
        for (ptrdiff_t i = 0; i < K; i++) S[i] /= A;
      }
      for (ptrdiff_t i = 0; i < K; i++) next[i] = Sq[i] + 0.5 * h * (Sv[i] + S[i]);
      for (; sample < end && job->at[sample] == k; sample++) {
        const ptrdiff_t place = out * job->slots + job->slot[sample];
        const double w = job->share[sample];
        job->out_y[place] = (1.0 - w) * q_before + w * q + p[BIAS];
        for (ptrdiff_t i = 0; i < K; i++)
          job->out_slope[place * K + i] = (1.0 - w) * Sq[i] + w * next[i] + (i == BIAS);
      }
      memcpy(Sq, next, sizeof Sq);
      memcpy(Sv, S, sizeof Sv);
    }
    if (force) force[k] = is_free ? command - q_before - 0.5 * h * mean : drive;
    acceleration = new_acceleration;
    v = new_v;
  }
  if (motion_q) { motion_q[job->steps] = q; motion_v[job->steps] = v; }
}

void simulate(const Job *job) {
  for (ptrdiff_t c = 0; c < job->variants; c++)
    for (ptrdiff_t b = 0; b < job->stretches; b++)
      for (ptrdiff_t j = 0; j < job->joints; j++)
        if (job->active[c * job->joints + j]) simulate_joint(job, c, b, j);
}
