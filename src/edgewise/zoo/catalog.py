"""Every built-in network: the file that builds it, its paper, its size, and the accuracy published for it.

`parameters` and `multiply_adds` are what the exported graph has at its usual input size, one image: tests hold them to
it. Multiply-adds are those of convolutions, linear layers and matrix products; batch normalization, activations and
pooling are not counted. Accuracy is that of the trained network on ImageNet, as published by `source`; the weights here
are noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from .published import PUBLISHED


@dataclass(frozen=True)
class Paper:
    authors: str
    title: str
    year: int
    arxiv: str = ""


@dataclass(frozen=True)
class Entry:
    """`family` is the file that builds it; `accuracy` is top-1 and top-5 in percent, and `source` who published it."""

    family: str
    paper: Paper | None
    parameters: int
    multiply_adds: int
    accuracy: tuple[float, float] | None = None
    source: str = ""
    task: str = "classification"


_ALEXNET = Paper("Krizhevsky et al.", "ImageNet Classification with Deep Convolutional Neural Networks", 2012)
_DENSENET = Paper("Huang et al.", "Densely Connected Convolutional Networks", 2016, "1608.06993")
_EFFICIENTNET = Paper(
    "Tan and Le", "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks", 2019, "1905.11946"
)
_INCEPTION_V1 = Paper("Szegedy et al.", "Going Deeper with Convolutions", 2014, "1409.4842")
_INCEPTION_V2 = Paper(
    "Ioffe and Szegedy",
    "Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift",
    2015,
    "1502.03167",
)
_INCEPTION_V3 = Paper("Szegedy et al.", "Rethinking the Inception Architecture for Computer Vision", 2015, "1512.00567")
_INCEPTION_V4 = Paper(
    "Szegedy et al.", "Inception-v4, Inception-ResNet and the Impact of Residual Connections", 2016, "1602.07261"
)
_MNASNET = Paper("Tan et al.", "MnasNet: Platform-Aware Neural Architecture Search for Mobile", 2018, "1807.11626")
_MOBILENET_V1 = Paper(
    "Howard et al.",
    "MobileNets: Efficient Convolutional Neural Networks for Mobile Vision Applications",
    2017,
    "1704.04861",
)
_MOBILENET_V2 = Paper("Sandler et al.", "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018, "1801.04381")
_MOBILENET_V3 = Paper("Howard et al.", "Searching for MobileNetV3", 2019, "1905.02244")
_NASNET = Paper("Zoph et al.", "Learning Transferable Architectures for Scalable Image Recognition", 2017, "1707.07012")
_PNASNET = Paper("Liu et al.", "Progressive Neural Architecture Search", 2017, "1712.00559")
_REGNET = Paper("Radosavovic et al.", "Designing Network Design Spaces", 2020, "2003.13678")
_RESNET = Paper("He et al.", "Deep Residual Learning for Image Recognition", 2015, "1512.03385")
_RESNET_V2 = Paper("He et al.", "Identity Mappings in Deep Residual Networks", 2016, "1603.05027")
_SHUFFLENET_V2 = Paper("Ma et al.", "ShuffleNet V2: Practical Guidelines", 2018, "1807.11164")
_SQUEEZENET = Paper(
    "Iandola et al.", "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016, "1602.07360"
)
_VGG = Paper(
    "Simonyan and Zisserman", "Very Deep Convolutional Networks for Large-Scale Image Recognition", 2014, "1409.1556"
)
_XCEPTION = Paper("Chollet", "Xception: Deep Learning with Depthwise Separable Convolutions", 2016, "1610.02357")
_DEIT = Paper("Touvron et al.", "Training data-efficient image transformers", 2020, "2012.12877")
_MOBILEVIT = Paper("Mehta and Rastegari", "MobileViT: Light-weight Vision Transformer", 2021, "2110.02178")
_MMPRETRAIN = "open-mmlab/mmpretrain"
_POSENET = Paper("Papandreou et al.", "PersonLab: Person Pose Estimation and Instance Segmentation", 2018, "1803.08225")
_RETINAFACE = Paper("Deng et al.", "RetinaFace: Single-stage Dense Face Localisation in the Wild", 2019, "1905.00641")
_STYLE = Paper("Johnson et al.", "Perceptual Losses for Real-Time Style Transfer", 2016, "1603.08155")
_YOLOV2 = Paper("Redmon and Farhadi", "YOLO9000: Better, Faster, Stronger", 2016, "1612.08242")

# The 26 networks of EmBench: accuracy from its Table 1.
_EMBENCH = {
    "alexnet": Entry("alexnet", _ALEXNET, 61_100_840, 714_188_480),
    "densenet121": Entry("densenet", _DENSENET, 7_978_856, 2_834_161_664),
    "densenet161": Entry("densenet", _DENSENET, 28_681_000, 7_727_907_072),
    "densenet169": Entry("densenet", _DENSENET, 14_149_480, 3_359_843_328),
    "densenet201": Entry("densenet", _DENSENET, 20_013_928, 4_291_365_888),
    "inception_v3": Entry("inception", _INCEPTION_V3, 23_834_568, 5_713_216_096),
    "inception_v4": Entry("inception", _INCEPTION_V4, 42_679_816, 12_253_974_624),
    "mnasnet1_0": Entry("mnasnet", _MNASNET, 4_383_312, 314_415_872),
    "mobilenet_v2": Entry("mobilenet", _MOBILENET_V2, 3_504_872, 300_774_272),
    "nasnetalarge": Entry("nasnet", _NASNET, 88_753_150, 23_783_414_658),
    "nasnetamobile": Entry("nasnet", _NASNET, 5_289_978, 563_638_816),
    "pnasnet5large": Entry("pnasnet", _PNASNET, 86_057_668, 24_937_395_792),
    "resnet18": Entry("resnet", _RESNET, 11_689_512, 1_814_073_344),
    "resnet34": Entry("resnet", _RESNET, 21_797_672, 3_663_761_408),
    "resnet50": Entry("resnet", _RESNET, 25_557_032, 4_089_184_256),
    "resnet101": Entry("resnet", _RESNET, 44_549_160, 7_801_405_440),
    "resnet152": Entry("resnet", _RESNET, 60_192_808, 11_513_626_624),
    "shufflenet_v2_x0_5": Entry("shufflenet", _SHUFFLENET_V2, 1_366_792, 40_476_448),
    "shufflenet_v2_x1_0": Entry("shufflenet", _SHUFFLENET_V2, 2_278_604, 144_907_992),
    "squeezenet1_0": Entry("squeezenet", _SQUEEZENET, 1_248_424, 818_924_576),
    "squeezenet1_1": Entry("squeezenet", _SQUEEZENET, 1_235_496, 349_151_936),
    "vgg11": Entry("vgg", _VGG, 132_863_336, 7_609_090_048),
    "vgg13": Entry("vgg", _VGG, 133_047_848, 11_308_466_176),
    "vgg16": Entry("vgg", _VGG, 138_357_544, 15_470_264_320),
    "vgg19": Entry("vgg", _VGG, 143_667_240, 19_632_062_464),
    "xception": Entry("xception", _XCEPTION, 22_855_952, 8_357_403_496),
}

# Networks of the other papers, and of today's devices: convolutional classifiers.
_CONVOLUTIONAL = {
    "efficientnet_lite0": Entry("efficientnet", _EFFICIENTNET, 4_652_008, 385_187_552, (74.83, 92.17), "timm"),
    "googlenet": Entry("googlenet", _INCEPTION_V1, 6_998_552, 1_582_671_872, (68.7, 88.9), "Caffe"),
    "inception_v1": Entry("googlenet", _INCEPTION_V1, 6_624_904, 1_498_376_192, (69.8, 89.6), "TF-slim"),
    "inception_v2": Entry("inception_v2", _INCEPTION_V2, 11_188_224, 1_934_857_216, (73.9, 91.8), "TF-slim"),
    "mobilenet_v1_025": Entry("mobilenet_v1", _MOBILENET_V1, 470_072, 41_030_272, (49.8, 74.2), "TF-slim"),
    "mobilenet_v1_050": Entry("mobilenet_v1", _MOBILENET_V1, 1_331_592, 149_497_088, (63.3, 84.9), "TF-slim"),
    "mobilenet_v1_075": Entry("mobilenet_v1", _MOBILENET_V1, 2_585_560, 325_400_448, (68.4, 88.2), "TF-slim"),
    "mobilenet_v1_100": Entry("mobilenet_v1", _MOBILENET_V1, 4_231_976, 568_740_352, (70.9, 89.9), "TF-slim"),
    "mobilenet_v3_large": Entry("mobilenet_v3", _MOBILENET_V3, 5_483_032, 216_589_760, (74.042, 91.34), "torchvision"),
    "mobilenet_v3_small": Entry("mobilenet_v3", _MOBILENET_V3, 2_542_856, 56_510_400, (67.668, 87.402), "torchvision"),
    "regnet_x_1_6gf": Entry("regnet", _REGNET, 9_190_136, 1_602_849_792, (77.04, 93.44), "torchvision"),
    "regnet_x_4_0gf": Entry("regnet", _REGNET, 22_118_248, 3_964_498_816, (78.48, 94.25), "timm"),
    "resnet_v2_50": Entry("resnet_v2", _RESNET_V2, 25_568_360, 6_536_211_200, (75.6, 92.8), "TF-slim"),
    "resnet_v2_101": Entry("resnet_v2", _RESNET_V2, 44_577_896, 13_373_516_544, (77.0, 93.7), "TF-slim"),
    "resnet_v2_152": Entry("resnet_v2", _RESNET_V2, 60_236_904, 20_210_821_888, (77.8, 94.1), "TF-slim"),
}

# Transformers and hybrids.
_TRANSFORMERS = {
    "mobilevit_s": Entry("mobilevit", _MOBILEVIT, 5_578_632, 2_000_831_488, (78.25, 94.09), _MMPRETRAIN),
    "mobilevit_xs": Entry("mobilevit", _MOBILEVIT, 2_317_848, 1_025_911_808, (74.75, 92.32), _MMPRETRAIN),
    "mobilevit_xxs": Entry("mobilevit", _MOBILEVIT, 1_272_024, 407_364_096, (69.02, 88.91), _MMPRETRAIN),
    "vit_small_patch16": Entry("vit", _DEIT, 22_050_664, 4_598_882_304, (79.9, 95.0), "facebookresearch/deit"),
    "vit_tiny_patch16": Entry("vit", _DEIT, 5_717_416, 1_253_683_200, (72.2, 91.1), "facebookresearch/deit"),
}

# Detection, pose, faces, style.
_DENSE = {
    "fast_style_transfer": Entry("style", _STYLE, 1_679_235, 10_078_912_512, task="style"),
    "posenet": Entry("posenet", _POSENET, 3_324_851, 1_191_790_016, task="pose"),
    "retinaface_mobilenet025": Entry("retinaface", _RETINAFACE, 426_608, 981_145_600, task="faces"),
    "tiny_yolov2": Entry("yolo", _YOLOV2, 15_861_773, 3_485_520_896, task="detection"),
    "yolo_anchor_free_n": Entry("yolo", None, 3_157_200, 4_371_993_600, task="detection"),
    "yolov2": Entry("yolo", _YOLOV2, 50_655_389, 14_680_167_424, task="detection"),
}


def _embench(name: str, entry: Entry) -> Entry:
    published = PUBLISHED[name]
    accuracy = (published.top1, published.top5)
    return Entry(entry.family, entry.paper, entry.parameters, entry.multiply_adds, accuracy, "EmBench Table 1")


CATALOG: dict[str, Entry] = {
    **{name: _embench(name, entry) for name, entry in _EMBENCH.items()},
    **_CONVOLUTIONAL,
    **_TRANSFORMERS,
    **_DENSE,
    "tiny": Entry("tiny", None, 10_858, 1_753_408),
}
