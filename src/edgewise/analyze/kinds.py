"""What engines call their operators, in words that are the same for all of them."""

from __future__ import annotations

OTHER = "other operators"

# Names as ONNX Runtime, OpenVINO, MNN, ncnn and torch's graph (which is ONNX's) report them.
_NAMES = {
    "convolution": (
        "Conv FusedConv NhwcFusedConv QLinearConv ConvInteger Convolution ConvolutionDepthWise "
        "ConvolutionDepthwise Convolution1D ConvolutionDepthWise1D ConvInt8 DepthwiseConvInt8 GroupConvolution"
    ),
    "transposed convolution": (
        "ConvTranspose Deconvolution DeconvolutionDepthWise DeconvolutionDepthwise ConvolutionBackpropData "
        "GroupConvolutionBackpropData"
    ),
    "matrix product": (
        "Gemm FusedGemm MatMul FusedMatMul QGemm QLinearMatMul MatMulInteger MatMulIntegerToFloat "
        "DynamicQuantizeMatMul FullyConnected InnerProduct BatchMatMul Einsum"
    ),
    "attention": (
        "Attention QAttention MultiHeadAttention ScaledDotProductAttention ScaledDotProductAttentionWithKVCache SDPA"
    ),
    "pooling": (
        "MaxPool AveragePool GlobalAveragePool GlobalMaxPool QLinearGlobalAveragePool QLinearAveragePool "
        "Pooling Pooling1D AdaptivePooling PoolInt8 AvgPool"
    ),
    "reduction": "ReduceMean ReduceSum ReduceMax ReduceMin Reduce Reduction ArgMax TopK TopKV2",
    "normalization": (
        "BatchNormalization LayerNormalization InstanceNormalization GroupNormalization LRN Normalize NormalizeL2 Norm "
        "MVN BatchNorm LayerNorm GroupNorm InstanceNorm Scale SkipLayerNormalization "
        "SimplifiedLayerNormalization"
    ),
    "activation": (
        "Relu Relu6 ReLU ReLU6 Clip LeakyRelu PRelu PReLU Sigmoid HardSigmoid HardSwish Swish QuickGelu Gelu "
        "GELU Erf Tanh Elu Softplus Clamp HSwish HSigmoid QLinearSigmoid"
    ),
    "softmax": "Softmax LogSoftmax SoftMax QLinearSoftmax",
    "elementwise": (
        "Add Sub Mul Div Pow Sqrt Neg Abs Exp Log Min Max Sum Where Eltwise BinaryOp UnaryOp Subgraph "
        "QLinearAdd QLinearMul EltwiseInt8 BinaryOpInt8 Multiply Subtract Divide Power"
    ),
    "resize": "Resize Upsample Interp Interpolate GridSample",
    "layout": (
        "Reorder ReorderInput ReorderOutput Transpose Permute Reshape Flatten Squeeze Unsqueeze ExpandDims "
        "Concat Concatenation QLinearConcat Split VariadicSplit Slice StridedSlice Gather GatherV2 Pad "
        "Padding Crop Raster ShuffleChannel ShuffleChannels DepthToSpace SpaceToDepth Expand Tile Packing "
        "ConvertTensor MemoryData PixelShuffle Broadcast"
    ),
    "conversion": (
        "QuantizeLinear DequantizeLinear DynamicQuantizeLinear FakeQuantize Quantize Dequantize Requantize "
        "Cast Convert FloatToInt8 Int8ToFloat"
    ),
    "transfer": "Copy Memcpy MemcpyFromHost MemcpyToHost",
}
_KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}


def kind(operator: str) -> str:
    return _KINDS.get(operator, OTHER)
