/* scale_machine.c: what a simulated machine costs (scale.h): the built-in one, and profiles as JSON
 * files. One table names each figure and its range, so that reading, writing and checking cannot
 * differ. */
#include "sim/scale.h"
#include <jansson.h>
#include <math.h>
#include <string.h>

const int64_t scale_sleep_ns[SCALE_SLEEPS] = {30000, 60000, 120000, 300000, 1000000};
const double scale_quantile_at[SCALE_QUANTILES] = {0,   0.1,  0.25,  0.5,   0.75,
                                                   0.9, 0.99, 0.999, 0.9999};

static const struct figure {
    const char *name;
    size_t at;
    double low, high;
} figures[] = {
#define FIGURE(field, low, high)                                 \
    {                                                            \
#field, offsetof(struct scale_machine, field), low, high \
    }
    FIGURE(fixed_ns, 1, 1e9),      FIGURE(cold_ns, 0, 1e9),      FIGURE(byte_ns, 0, 1e6),
    FIGURE(fresh_ns, 0, 1e6),      FIGURE(mark_rate, 1e-6, 1e6), FIGURE(stack_ns, 1, 1e9),
    FIGURE(switch_in_ns, 0, 1e9),  FIGURE(stack_bytes, 1, 1e9),  FIGURE(sweep_ns, 0, 1e3),
    FIGURE(handshake_ns, 0, 1e9),  FIGURE(alloc_factor, 1, 100), FIGURE(conn_scan_bytes, 0, 1e9),
    FIGURE(remote_factor, 1, 100), FIGURE(crowd_factor, 1, 100), FIGURE(pauses_per_s, 0, 1e5),
};
#define FIGURES (sizeof figures / sizeof *figures)

static double *figure_of(struct scale_machine *m, size_t i)
{
    return (double *)((char *)m + figures[i].at);
}

/* Rounded from several calibrations of one machine, not all of them undisturbed.
 * docs/design/scale.md says how far they can be relied on. */
void scale_machine_builtin(struct scale_machine *m)
{
    *m = (struct scale_machine){
        .name = "AMD EPYC (Zen 3), KVM guest",
        .fixed_ns = 3100,
        .cold_ns = 1700,
        .byte_ns = 0.12,
        .fresh_ns = 0.42,
        .mark_rate = 0.68,
        .stack_ns = 900,
        .switch_in_ns = 1800,
        .stack_bytes = 2560,
        .sweep_ns = 0.008,
        .handshake_ns = 1050,
        .alloc_factor = 1.022,
        .conn_scan_bytes = 960,
        .remote_factor = 1.7,
        .crowd_factor = 1.2,
        .pauses_per_s = 1200,
        .work = {0.4, 0.72, 0.81, 0.95, 1.12, 1.31, 1.76, 2.7, 5.7},
        .pause = {1500, 2200, 2500, 3000, 20000, 45000, 70000, 150000, 170000},
        .wake = {{26495, 33535, 36607, 37119, 38399, 46079, 60927, 150000, 650000},
                 {23423, 31231, 35327, 38143, 46335, 54015, 74751, 150000, 650000},
                 {28287, 41471, 48639, 53503, 56831, 59647, 93695, 150000, 650000},
                 {26367, 34303, 36095, 39423, 48127, 63231, 94207, 150000, 650000},
                 {34815, 47615, 50943, 54783, 58367, 61439, 99839, 150000, 650000}},
    };
}

static int quantiles_check(const char *name, const double *q, char *why, size_t room)
{
    for (int i = 0; i < SCALE_QUANTILES; i++) {
        if (q[i] >= 0 && q[i] <= 1e12 && (i == 0 || q[i] >= q[i - 1]))
            continue;
        snprintf(why, room, "%s: expected %d numbers from 0 on that never fall", name,
                 SCALE_QUANTILES);
        return -1;
    }
    return 0;
}

static int wakes_check(const struct scale_machine *m, char *why, size_t room)
{
    for (int i = 0; i < SCALE_SLEEPS; i++)
        if (quantiles_check("wake_ns", m->wake[i], why, room) != 0)
            return -1;
    return 0;
}

int scale_machine_check(const struct scale_machine *m, char *why, size_t room)
{
    struct scale_machine copy = *m;
    for (size_t i = 0; i < FIGURES; i++) {
        double v = *figure_of(&copy, i);
        if (v >= figures[i].low && v <= figures[i].high)
            continue;
        snprintf(why, room, "%s: expected a number from %g to %g, not %g", figures[i].name,
                 figures[i].low, figures[i].high, v);
        return -1;
    }
    if (quantiles_check("work", m->work, why, room) != 0 ||
        quantiles_check("pause_ns", m->pause, why, room) != 0)
        return -1;
    return wakes_check(m, why, room);
}

static void numbers_read(const json_t *list, double *q, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        q[i] = json_is_number(v) && json_array_size(list) == n ? json_number_value(v) : (double)NAN;
    }
}

static int machine_from(const json_t *j, struct scale_machine *m, char *why, size_t room)
{
    const json_t *name = json_object_get(j, "machine");
    memset(m, 0, sizeof *m);
    if (!json_is_string(name)) {
        snprintf(why, room, "machine: expected a name");
        return -1;
    }
    snprintf(m->name, sizeof m->name, "%s", json_string_value(name));
    for (size_t i = 0; i < FIGURES; i++) {
        const json_t *v = json_object_get(j, figures[i].name);
        *figure_of(m, i) = json_is_number(v) ? json_number_value(v) : (double)NAN;
    }
    numbers_read(json_object_get(j, "work"), m->work, SCALE_QUANTILES);
    numbers_read(json_object_get(j, "pause_ns"), m->pause, SCALE_QUANTILES);
    for (size_t i = 0; i < SCALE_SLEEPS; i++)
        numbers_read(json_array_get(json_object_get(j, "wake_ns"), i), m->wake[i], SCALE_QUANTILES);
    return scale_machine_check(m, why, room);
}

int scale_machine_read(const char *path, struct scale_machine *m, char *why, size_t room)
{
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (j == NULL) {
        if (error.line > 0)
            snprintf(why, room, "line %d: %s", error.line, error.text);
        else
            snprintf(why, room, "%s", error.text);
        return -1;
    }
    int err = machine_from(j, m, why, room);
    json_decref(j);
    return err;
}

static json_t *numbers_json(const double *q, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_real(q[i]));
    return list;
}

int scale_machine_write(FILE *out, const struct scale_machine *m)
{
    struct scale_machine copy = *m;
    json_t *j = json_pack("{s:s}", "machine", m->name);
    for (size_t i = 0; i < FIGURES; i++)
        json_object_set_new(j, figures[i].name, json_real(*figure_of(&copy, i)));
    json_object_set_new(j, "quantiles_at", numbers_json(scale_quantile_at, SCALE_QUANTILES));
    json_object_set_new(j, "work", numbers_json(m->work, SCALE_QUANTILES));
    json_object_set_new(j, "pause_ns", numbers_json(m->pause, SCALE_QUANTILES));
    json_t *sleeps = json_array(), *wakes = json_array();
    for (int i = 0; i < SCALE_SLEEPS; i++) {
        json_array_append_new(sleeps, json_integer(scale_sleep_ns[i]));
        json_array_append_new(wakes, numbers_json(m->wake[i], SCALE_QUANTILES));
    }
    json_object_set_new(j, "sleeps_ns", sleeps);
    json_object_set_new(j, "wake_ns", wakes);
    int err =
        json_dumpf(j, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) != 0 || fputc('\n', out) == EOF;
    json_decref(j);
    return err ? -1 : 0;
}
