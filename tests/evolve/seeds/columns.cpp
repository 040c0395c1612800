/* plan
[knobs]
BLOCK  = { value = 64, choices = [4, 8, 16, 32, 64, 128] }
WIDTH  = { value = 8, choices = [4, 8, 16] }
UNROLL = { value = 1, choices = [1, 2, 4, 8] }
STAGES = { value = 2, choices = [1, 2, 3] }

[[launch]]
kernel = "scale_columns"
grid = ["ceil_div(n, BLOCK)", "1", "1"]
args = ["x", "y", "total", "n", "m"]
*/
extern "C" void scale_columns(long task, void* const* args) { /* by columns, two at a time */ }
