/* scale_load.h: connections, tasks and requests of a simulated run. Small, as there may be
 * millions: a connection with its two tasks takes 64 bytes.
 *
 * Links are numbers, NONE ends a list. A task is in at most one list, through task.next; a
 * connection in at most one list of due ones, through conn.next. */
#ifndef HG_SIM_SCALE_LOAD_H
#define HG_SIM_SCALE_LOAD_H
#include <stdbool.h>
#include <stdint.h>

#define SCALE_NONE UINT32_MAX /* no task, no connection, no proc */

enum scale_stage {
    SCALE_MAKE,  /* client: makes the request, sends it */
    SCALE_SERVE, /* server: answers */
    SCALE_READ,  /* client: reads the answer */
    SCALE_WHOLE, /* all three in one go, while nothing can come between */
    SCALE_STAGES
};

/* Task 2c is the client, 2c + 1 the server of connection c. */
struct scale_task {
    uint32_t next;    /* in the one list that it is in */
    uint32_t scanned; /* cycle in which its stack was */
    float owed;       /* Go: bytes allocated beyond what its assists paid for; negative: ahead */
    uint32_t paid;    /* this stage's allocations are dealt with: it was parked in them */
};

struct scale_conn {
    int64_t intended;     /* of the request in hand */
    uint32_t next;        /* in a list of due ones */
    uint32_t first, last; /* further arrivals: in scale_world.pending */
    uint16_t home;        /* proc whose timer its client sleeps on */
    uint8_t stage;
    bool busy; /* a request is in hand */
};

struct scale_pending {
    int64_t intended;
    uint32_t next;
};

/* A list linked through task.next or conn.next. */
struct scale_list {
    uint32_t first, last, n;
};

struct scale_arrival {
    int64_t at;
    uint32_t conn;
};

_Static_assert(sizeof(struct scale_conn) + 2 * sizeof(struct scale_task) <= 64, "small");

#endif
