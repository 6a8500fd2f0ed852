/* outfile.c: write, then rename (outfile.h). */
#include "sim/outfile.h"
#include "sim/memory.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

int sim_outfile_check(const char *path)
{
    struct stat st;
    if (is_special(path))
        return access(path, W_OK) == 0 ? 0 : -errno;
    const char *slash = strrchr(path, '/');
    char *folder =
        slash == NULL ? strdup(".") : strndup(path, slash > path ? (size_t)(slash - path) : 1);
    int err = 0;
    if (folder == NULL)
        return -ENOMEM;
    if (slash != NULL ? slash[1] == 0 : path[0] == 0)
        err = -EINVAL;
    else if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        err = -EISDIR;
    else if (access(folder, W_OK | X_OK) != 0)
        err = -errno;
    free(folder);
    return err;
}

int sim_outfile_open(struct sim_outfile *f, const char *path)
{
    size_t room = strlen(path) + 32;
    f->path = sim_alloc(room, 1);
    snprintf(f->path, room, "%s", path);
    f->temporary = NULL;
    if (!is_special(path)) {
        f->temporary = sim_alloc(room, 1);
        snprintf(f->temporary, room, "%s.%ld.tmp", path, (long)getpid());
    }
    f->file = fopen(f->temporary != NULL ? f->temporary : path, "we");
    if (f->file != NULL)
        return 0;
    int err = -errno;
    free(f->path);
    free(f->temporary);
    return err;
}

/* Closes the stream; puts the file in its place if err is 0 and it was written whole. Returns err
 * or what went wrong. */
static int finish(struct sim_outfile *f, int err)
{
    errno = 0;
    if ((fflush(f->file) != 0 || ferror(f->file)) && err == 0)
        err = errno != 0 ? -errno : -EIO;
    if (fclose(f->file) != 0 && err == 0)
        err = -errno;
    if (f->temporary != NULL) {
        if (err == 0 && rename(f->temporary, f->path) != 0)
            err = -errno;
        if (err != 0)
            unlink(f->temporary);
    }
    free(f->path);
    free(f->temporary);
    return err;
}

int sim_outfile_commit(struct sim_outfile *f) { return finish(f, 0); }

int sim_outfile_discard(struct sim_outfile *f) { return finish(f, -EIO); }

int sim_outfile_write(const char *path, sim_outfile_writer *write, const void *data)
{
    struct sim_outfile f;
    int err = sim_outfile_open(&f, path);
    if (err != 0)
        return err;
    return write(f.file, data) == 0 ? sim_outfile_commit(&f) : sim_outfile_discard(&f);
}

int sim_outfile_complain(const char *program, const char *option, const char *path, const char *why)
{
    fprintf(stderr, "%s: --%s: cannot write \"%s\": %s\n", program, option, path, why);
    return 1;
}

int sim_outfile_put(const char *program, const char *option, const char *path,
                    sim_outfile_writer *write, const void *data)
{
    int err = path != NULL ? sim_outfile_write(path, write, data) : 0;
    return err == 0 ? 0 : sim_outfile_complain(program, option, path, strerror(-err));
}
