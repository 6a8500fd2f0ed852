/* serve_parse.h: requests out of a stream of bytes, however they are cut into pieces.
 *
 * A request is an array of bulk strings (*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n) or a line (ECHO hi),
 * whose words may be quoted. The parser looks at the bytes of one request from its beginning, as
 * many as there are, and keeps how far it got; it copies nothing and allocates only the list of
 * arguments, and that only as arguments really arrive.
 */
#ifndef HG_SIM_SERVE_PARSE_H
#define HG_SIM_SERVE_PARSE_H
#include "sim/serve_text.h"

#define SERVE_LINE_MAX  65536                /* bytes of an inline request or of a header line */
#define SERVE_BULKS_MAX 1048576              /* arguments of a request */
#define SERVE_BULK_MAX  (INT64_C(512) << 20) /* bytes of one */

/* An argument: a part of the request's bytes. */
struct serve_span {
    uint32_t at, n;
};

/* Part of a heap object whose layout names `span` as a reference; all zero: at the beginning of a
 * request. */
struct serve_parse {
    struct serve_span *span; /* leaf: `room` of them, `argc` are set */
    uint32_t argc, room;
    size_t at;      /* bytes understood so far */
    int64_t bulks;  /* arguments still to come; 0: no header yet */
    int64_t bulk;   /* length of the argument whose bytes come next, + 1; 0: its header does */
    char error[64]; /* of SERVE_WRONG, without "-ERR " */
};

enum serve_parsed {
    SERVE_MORE,    /* the request goes on behind these bytes */
    SERVE_REQUEST, /* argc arguments (0: an empty request); it takes up `at` bytes */
    SERVE_WRONG    /* no request can begin like this */
};

/* S W: looks at a request's first n bytes (at least as many as the last time, and the same).
 * Quoted words of a line are unquoted where they stand. n is below 2^32. */
enum serve_parsed serve_parse(struct serve_parse *p, char *bytes, size_t n);
/* Before the next request. Keeps a list of arguments of an ordinary size. */
void serve_parse_reset(struct serve_parse *p);

#endif
