/* serve_map.c: sets and hashes: a dict in an object (serve_value.h). */
#include "sim/serve_value.h"

static const uint32_t map_refs[] = {(uint32_t)offsetof(struct serve_map, dict.table)};
static const hg_layout map_layout = HG_TYPED("serve map", map_refs);

struct serve_map *serve_map_new(enum serve_type type)
{
    struct serve_map *m = hg_alloc(sizeof *m, &map_layout);
    m->head.type = type;
    return m;
}
