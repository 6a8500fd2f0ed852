/* serve_string.c: strings, and the names of all types (serve_value.h). A string is one leaf object;
 * the room it can grow into is what the allocator rounded up to, or what an append asked for. */
#include "sim/serve_value.h"

/* a string grows by its own length, but by no more than this at once */
#define ROOM_MOST (1u << 20)

const char *serve_type_name(uint32_t type)
{
    static const char *const names[SERVE_TYPES] = {"string", "list", "set", "hash", "zset"};
    return names[type];
}

static struct serve_string *with_room(struct serve_text t, size_t room)
{
    struct serve_string *s = hg_alloc(sizeof *s + t.n + room, HG_LEAF);
    s->head.type = SERVE_STRING;
    s->length = t.n;
    memcpy(s->bytes, t.at, t.n);
    return s;
}

struct serve_string *serve_string_new(struct serve_text t) { return with_room(t, 0); }

struct serve_string *serve_string_append(struct serve_string *s, struct serve_text more)
{
    size_t length = s->length + more.n;
    if (sizeof *s + length > hg_size_of(s))
        s = with_room(serve_string_text(s), more.n + (length < ROOM_MOST ? length : ROOM_MOST));
    memcpy(s->bytes + s->length, more.at, more.n);
    s->length = length;
    return s;
}
