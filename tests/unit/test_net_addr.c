/* test_net_addr.c: addresses as text: what is read, what is refused, and that what is written is
 * read back. */
#include "runtime/net/net.h"
#include "tests/support/test.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

TestSuite(net_addr, .timeout = 30);

/* What the text says, as text again; to listen. */
static const char *again(const char *text)
{
    static char out[HG_ADDRESS_ROOM];
    struct hg_net_address a;
    cr_assert_eq(hg__address_parse(text, false, &a), 0, "%s", text);
    int n = hg__address_format(&a, out, sizeof out);
    cr_assert_eq(n, (int)strlen(out), "%s", text);
    return out;
}

Test(net_addr, forms)
{
    cr_assert_str_eq(again("127.0.0.1:80"), "127.0.0.1:80");
    cr_assert_str_eq(again("localhost:65535"), "127.0.0.1:65535");
    cr_assert_str_eq(again("[::1]:0"), "[::1]:0");
    cr_assert_str_eq(again("[2001:DB8:0:0::1]:443"), "[2001:db8::1]:443");
    cr_assert_str_eq(again("[fe80::1%lo]:22"), "[fe80::1%lo]:22");
    cr_assert_str_eq(again("[fe80::1%1]:22"), "[fe80::1%lo]:22");
    cr_assert_str_eq(again("[fe80::1%4000000]:22"), "[fe80::1%4000000]:22");
    cr_assert_str_eq(again(":80"), "[::]:80");
    cr_assert_str_eq(again("unix:/tmp/a b"), "unix:/tmp/a b");
    cr_assert_str_eq(again("unix:relative"), "unix:relative");
    cr_assert_str_eq(again("unix:@name"), "unix:@name");
}

Test(net_addr, to_dial_no_host_is_this_one)
{
    struct hg_net_address a;
    char text[HG_ADDRESS_ROOM];
    cr_assert_eq(hg__address_parse(":6379", true, &a), 0);
    cr_assert_gt(hg__address_format(&a, text, sizeof text), 0);
    cr_assert_str_eq(text, "127.0.0.1:6379");
}

Test(net_addr, what_is_no_address)
{
    static const char *const bad[] = {
        "",
        "80",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "1.2.3:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[::1:80",
        "[]:80",
        "[::1%]:80",
        "[::1%nosuch]:1",
        "[127.0.0.1]:80",
        "example.com:80",
        "1.2.3.4:x",
        "1.2.3.4:-1",
        "1.2.3.4: 80",
        "1.2.3.4:99999999999999999999",
        "unix:",
        "unix:@",
        "[:80",
        "]:80",
        "0123456789012345678901234567890123456789012345678901234567890123456789:1"};
    struct hg_net_address a;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(hg__address_parse(bad[i], false, &a), -EINVAL, "\"%s\"", bad[i]);
    cr_assert_eq(hg__address_parse(NULL, false, &a), -EINVAL);
}

/* The longest path leaves no place for its 0 in the text but for one byte; one more is refused. */
Test(net_addr, paths_up_to_their_limit)
{
    enum { MOST = sizeof((struct sockaddr_un *)NULL)->sun_path };
    char text[8 + MOST + 2] = "unix:";
    struct hg_net_address a;
    memset(text + 5, 'p', MOST - 1);
    text[5 + MOST - 1] = 0;
    cr_assert_str_eq(again(text), text);
    text[5 + MOST - 1] = 'p';
    text[5 + MOST] = 0;
    cr_assert_eq(hg__address_parse(text, false, &a), -ENAMETOOLONG);
    text[5] = '@'; /* a name needs no 0 at its end */
    cr_assert_str_eq(again(text), text);
    text[5 + MOST] = 'p';
    text[5 + MOST + 1] = 0;
    cr_assert_eq(hg__address_parse(text, false, &a), -ENAMETOOLONG);
}

Test(net_addr, room_is_kept)
{
    static const char *const texts[] = {"127.0.0.1:80", "[::1]:80", "unix:/a/path", "unix:@x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct hg_net_address a;
        cr_assert_eq(hg__address_parse(texts[i], false, &a), 0);
        size_t need = strlen(texts[i]) + 1;
        char text[HG_ADDRESS_ROOM];
        for (size_t room = 0; room < need; room++) {
            memset(text, '#', sizeof text);
            cr_assert_eq(hg__address_format(&a, text, room), -ENOSPC, "%s in %zu", texts[i], room);
            cr_assert_eq(text[room], '#', "%s in %zu", texts[i], room);
        }
        cr_assert_eq(hg__address_format(&a, text, need), (int)need - 1);
    }
}

Test(net_addr, other_families)
{
    struct hg_net_address a;
    char text[HG_ADDRESS_ROOM];
    memset(&a, 0, sizeof a);
    a.u.sa.sa_family = AF_PACKET;
    cr_assert_eq(hg__address_format(&a, text, sizeof text), -EAFNOSUPPORT);
    /* The peer of a socketpair has a family and no name. */
    a.u.sa.sa_family = AF_UNIX;
    a.length = sizeof a.u.sa.sa_family;
    cr_assert_eq(hg__address_format(&a, text, sizeof text), 5);
    cr_assert_str_eq(text, "unix:");
}

/* Any text at all: an address that reads back as itself, or refused; never anything else. */
Test(net_addr, random_texts)
{
    static const char letters[] = "0123456789abf:.[]%@/unixlo";
    struct hg_rand r = {test_seed("net_addr")};
    for (uint64_t i = 0; i < test_scaled(200000); i++) {
        static const char *const begin[] = {"",         "unix:",    "unix:@", "[",
                                            "127.0.0.", "[fe80::%", ":"};
        char text[40];
        strcpy(text, begin[hg_rand_below(&r, sizeof begin / sizeof *begin)]);
        size_t from = strlen(text), n = from + hg_rand_below(&r, i % 4 == 0 ? 24 : 5);
        for (size_t k = from; k < n; k++)
            text[k] = letters[hg_rand_below(&r, sizeof letters - 1)];
        text[n] = 0;
        struct hg_net_address a, b;
        char out[HG_ADDRESS_ROOM];
        if (hg__address_parse(text, i % 2 != 0, &a) != 0)
            continue;
        cr_assert_gt(hg__address_format(&a, out, sizeof out), 0, "%s", text);
        cr_assert_eq(hg__address_parse(out, false, &b), 0, "%s: %s", text, out);
        cr_assert_eq(a.length, b.length, "%s: %s", text, out);
        cr_assert_arr_eq(&a.u, &b.u, sizeof a.u, "%s: %s", text, out);
    }
}
