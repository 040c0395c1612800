"""Stands in for ``evaluator.cuda.health`` in a new process; its argument says how the GPU behaves."""

import sys
import time

KIND = sys.argv[1]
if KIND == "0":
    print('{"virtual_memory": true}')
elif KIND == "1":
    time.sleep(60)
elif KIND == "2":
    raise RuntimeError("cuCtxSynchronize failed: CUDA_ERROR_ECC_UNCORRECTABLE (214)")
else:
    raise RuntimeError("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY (2)")
