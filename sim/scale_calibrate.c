#include "sim/scale.h"
int scale_calibrate(const struct scale_options *opt) { (void)opt; return 0; }
