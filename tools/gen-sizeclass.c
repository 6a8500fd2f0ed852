/* gen-sizeclass.c: writes alloc/sizeclass.h and alloc/sizeclass.c, the size classes of small
 * objects.
 *
 *   gen-sizeclass DIR           writes DIR/sizeclass.h and DIR/sizeclass.c
 *   gen-sizeclass --check DIR   generates again and compares; 1 and the first differing file if one
 *   is stale
 *   gen-sizeclass --table       prints the classes with their waste, for people
 *
 * A class is a slot size, the pages of a span of such slots, and the slots in it. DESCRIBED spans
 * keep a 16-bit layout id for each slot at their end, and so have their own number of pages and
 * slots.
 *
 * Waste bound. For a request of r bytes, rounded up to the 16 bytes that every object is aligned
 * to, that lands in a class of n slots in a span of B bytes: what rounding to the slot size and the
 * tail of the span cost together, 1 - n * r / B, is at most 1/8 (12.5 %). In DESCRIBED spans the
 * ids count as used: 1 - n * (r + 2) / B, same bound. It holds for every r from 16 on up to 32 KiB;
 * the program fails rather than write a table that breaks it.
 *
 * How classes are chosen. All multiples of 16 up to 256 are classes, and all powers of two. Between
 * them the next class is the largest size that keeps the bound for the smallest request which lands
 * in it: the fewest classes for that bound. Sizes above 1 KiB are multiples of 128, so that two
 * byte tables find a size's class.
 *
 * How spans are chosen. The fewest pages with at least 32 slots, up to 64 KiB; failing that the
 * most slots within 64 KiB; failing that (the bound asks for it above 16 KiB) the fewest pages that
 * keep the bound, up to 136 KiB. At most 512 slots.
 *
 * Slot numbers. The index of an offset is (offset * inverse) >> 32 with inverse = ceil(2^32 /
 * size). The program checks this against the division for every offset of every span.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 8192,
    GRAIN = 16,  /* alignment of objects */
    DENSE = 256, /* up to here each multiple of GRAIN is a class */
    FINE = 1024, /* up to here sizes are multiples of GRAIN, above of COARSE */
    COARSE = 128,
    SMALL_MAX = 32768,
    SLOTS_MAX = 512,
    SLOTS_AIM = 32,
    PAGES_AIM = 8, /* 64 KiB */
    PAGES_MAX = 17,
    ID_BYTES = 2,
    WASTE_DIVISOR = 8, /* the bound: 1/8 */
    CLASSES_MAX = 256  /* a page's descriptor has 8 bits for it */
};

/* The spans of a class of one flavour, plain or DESCRIBED. */
struct shape {
    uint32_t pages, count;
};

struct class
{
    uint32_t size, least; /* least: smallest rounded request that lands here */
    struct shape plain, described;
};

static struct class classes[CLASSES_MAX];
static unsigned nclasses = 1; /* class 0 stands for large objects */

static uint32_t slots_of(uint32_t size, uint32_t pages, uint32_t id)
{
    uint32_t n = pages * PAGE / (size + id);
    return n < SLOTS_MAX ? n : SLOTS_MAX;
}

static uint32_t wasted(uint32_t least, struct shape s, uint32_t id)
{
    return s.pages * PAGE - s.count * (least + id);
}

static bool within_bound(uint32_t least, struct shape s, uint32_t id)
{
    return s.count > 0 && wasted(least, s, id) * WASTE_DIVISOR <= s.pages * PAGE;
}

/* The span for slots of `size`, of which a request fills `least` bytes. False: none keeps the
 * bound. */
static bool choose_shape(uint32_t size, uint32_t least, uint32_t id, struct shape *out)
{
    bool found = false;
    for (uint32_t pages = 1; pages <= PAGES_MAX; pages++) {
        struct shape s = {pages, slots_of(size, pages, id)};
        if (pages > PAGES_AIM && found)
            break;
        if (!within_bound(least, s, id) || (found && s.count <= out->count))
            continue;
        *out = s;
        found = true;
        if (s.count >= SLOTS_AIM)
            break;
    }
    return found;
}

static uint32_t next_limit(uint32_t last)
{
    if (last < DENSE)
        return last + GRAIN;
    uint32_t limit = GRAIN;
    while (limit <= last)
        limit *= 2;
    return limit;
}

/* Fills classes[]. False: some request fits no class within the bound. */
static bool choose_classes(void)
{
    uint32_t last = 0;
    while (last < SMALL_MAX) {
        uint32_t step = last < FINE ? GRAIN : COARSE;
        struct class c = {.size = next_limit(last), .least = last + GRAIN};
        while (c.size > last && !(choose_shape(c.size, c.least, 0, &c.plain) &&
                                  choose_shape(c.size, c.least, ID_BYTES, &c.described)))
            c.size -= step;
        if (c.size <= last || nclasses == CLASSES_MAX) {
            fprintf(stderr, "gen-sizeclass: no class for %u bytes within the waste bound\n",
                    (unsigned)c.least);
            return false;
        }
        classes[nclasses++] = c;
        last = c.size;
    }
    return true;
}

static uint32_t inverse_of(uint32_t size)
{
    return (uint32_t)(((UINT64_C(1) << 32) + size - 1) / size);
}

/* Checks the multiplication against the division for every offset of the class's larger span. */
static bool check_inverse(const struct class *c)
{
    uint32_t pages = c->plain.pages > c->described.pages ? c->plain.pages : c->described.pages;
    uint64_t inverse = inverse_of(c->size);
    for (uint32_t offset = 0; offset < pages * PAGE; offset++)
        if ((offset * inverse) >> 32 != offset / c->size) {
            fprintf(stderr, "gen-sizeclass: size %u: wrong index for offset %u\n",
                    (unsigned)c->size, (unsigned)offset);
            return false;
        }
    return true;
}

static unsigned class_of(uint32_t size)
{
    unsigned i = 1;
    while (classes[i].size < size)
        i++;
    return i;
}

static void write_notice(FILE *f, const char *text)
{
    fprintf(f,
            "/* %s\n *\n"
            " * Generated by tools/gen-sizeclass.c, which states the rules and the waste bound:\n"
            " * rounding to a slot's size and the tail of the span cost at most 1/%d of the span\n"
            " * together. Do not edit.\n",
            text, (int)WASTE_DIVISOR);
}

static void write_header(FILE *f)
{
    write_notice(f, "sizeclass.h: the size classes of small objects. Constant tables; no state.");
    fprintf(f,
            " */\n"
            "#ifndef HG_ALLOC_SIZECLASS_H\n"
            "#define HG_ALLOC_SIZECLASS_H\n"
            "#include <stddef.h>\n"
            "#include <stdint.h>\n\n"
            "#define HG_CLASSES %u /* class 0, all zero, stands for large objects */\n\n",
            nclasses);
    fprintf(f,
            "struct hg_class {\n"
            "    uint32_t size, inverse; /* slot of an offset: (offset * inverse) >> 32 */\n"
            "    uint16_t pages, count;  /* of a span: pages, slots */\n"
            "    uint16_t pages_described, count_described; /* the same, with ids at the end */\n"
            "};\n"
            "extern const struct hg_class hg__class[HG_CLASSES];\n\n");
    fprintf(f,
            "/* Classes by size in units of %d bytes; above %d bytes by units of %d beyond it. */\n"
            "extern const uint8_t hg__class_fine[%d];\n"
            "extern const uint8_t hg__class_coarse[%d];\n\n",
            (int)GRAIN, (int)FINE, (int)COARSE, FINE / GRAIN + 1, (SMALL_MAX - FINE) / COARSE + 1);
    fprintf(f,
            "/* The smallest class whose slots hold `size` bytes, at most %d; 0 counts as 1. */\n"
            "static inline unsigned hg__class_of(size_t size)\n"
            "{\n"
            "    if (size <= %d)\n"
            "        return hg__class_fine[(size + %d) / %d];\n"
            "    return hg__class_coarse[(size - %d + %d) / %d];\n"
            "}\n\n"
            "#endif\n",
            (int)SMALL_MAX, (int)FINE, GRAIN - 1, (int)GRAIN, (int)FINE, COARSE - 1, (int)COARSE);
}

static void write_bytes(FILE *f, const char *name, unsigned n, uint32_t first, uint32_t step)
{
    fprintf(f, "\nconst uint8_t %s[%u] = {", name, n);
    for (unsigned i = 0; i < n; i++)
        fprintf(f, "%s%u%s", i % 24 == 0 ? "\n    " : " ", class_of(first + i * step),
                i + 1 < n ? "," : "\n");
    fprintf(f, "};\n");
}

/* Waste of a shape in per mille of its span. */
static unsigned per_mille(uint32_t least, struct shape s, uint32_t id)
{
    return (unsigned)(wasted(least, s, id) * 1000 / (s.pages * PAGE));
}

static void write_source(FILE *f)
{
    write_notice(f, "sizeclass.c: the tables of sizeclass.h.");
    fprintf(f,
            " * Comments: the class, and its most waste in per mille, plain and described.\n */\n"
            "#include \"alloc/sizeclass.h\"\n\n"
            "const struct hg_class hg__class[HG_CLASSES] = {\n"
            "    {0, 0, 0, 0, 0, 0},\n");
    for (unsigned i = 1; i < nclasses; i++) {
        const struct class *c = &classes[i];
        fprintf(f, "    {%u, %u, %u, %u, %u, %u}, /* %u: %u, %u */\n", (unsigned)c->size,
                (unsigned)inverse_of(c->size), (unsigned)c->plain.pages, (unsigned)c->plain.count,
                (unsigned)c->described.pages, (unsigned)c->described.count, i,
                per_mille(c->least, c->plain, 0), per_mille(c->least, c->described, ID_BYTES));
    }
    fprintf(f, "};\n");
    write_bytes(f, "hg__class_fine", FINE / GRAIN + 1, 0, GRAIN);
    write_bytes(f, "hg__class_coarse", (SMALL_MAX - FINE) / COARSE + 1, FINE, COARSE);
}

/* The text of one file, to be freed. */
static char *text_of(void (*writer)(FILE *))
{
    char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    if (f == NULL)
        return NULL;
    writer(f);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static bool same_as_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return false;
    size_t i = 0;
    int ch;
    while ((ch = fgetc(f)) != EOF && text[i] != '\0' && ch == (unsigned char)text[i])
        i++;
    fclose(f);
    return ch == EOF && text[i] == '\0';
}

static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static int emit(const char *folder, const char *name, void (*writer)(FILE *), bool check)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 1;
    char *text = text_of(writer);
    bool ok = text != NULL && (check ? same_as_file(path, text) : write_file(path, text));
    free(text);
    if (!ok)
        fprintf(stderr, "gen-sizeclass: %s %s\n", path,
                check ? "is stale: generate it again" : "was not written");
    return ok ? 0 : 1;
}

static void print_table(void)
{
    printf("class   size  pages slots waste   described: pages slots waste (per mille)\n");
    for (unsigned i = 1; i < nclasses; i++) {
        const struct class *c = &classes[i];
        printf("%5u %6u %6u %5u %5u %18u %5u %5u\n", i, (unsigned)c->size, (unsigned)c->plain.pages,
               (unsigned)c->plain.count, per_mille(c->least, c->plain, 0),
               (unsigned)c->described.pages, (unsigned)c->described.count,
               per_mille(c->least, c->described, ID_BYTES));
    }
}

int main(int argc, char **argv)
{
    bool check = argc == 3 && strcmp(argv[1], "--check") == 0;
    bool table = argc == 2 && strcmp(argv[1], "--table") == 0;
    if (!check && !table && (argc != 2 || argv[1][0] == '-')) {
        fprintf(stderr, "usage: gen-sizeclass [--check] DIR | --table\n");
        return 2;
    }
    if (!choose_classes())
        return 1;
    for (unsigned i = 1; i < nclasses; i++)
        if (!check_inverse(&classes[i]))
            return 1;
    if (table) {
        print_table();
        return 0;
    }
    const char *folder = argv[argc - 1];
    return emit(folder, "sizeclass.h", write_header, check) |
           emit(folder, "sizeclass.c", write_source, check);
}
