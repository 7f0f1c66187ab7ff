"""A processor instruction for kernels: load an element into the cache before it is needed.

Kernels that follow the edges of a graph read memory in random order and mostly wait for it. They know which elements
they will read next.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Start to load `array[index]`, without waiting for it; inside kernels only.

    Nothing is computed and nothing can fail: an index out of range is ignored by the processor.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = make_array(signature.args[0])(context, builder, arguments[0])
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(values.data, [arguments[1]]), byte_pointer)
        signature_of_prefetch = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], signature_of_prefetch)
        builder.call(function, [address, int32(0), int32(3), int32(1)])  # for reading, into all caches, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
