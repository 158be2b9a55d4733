"""What was published of the networks here: Table 1 of EmBench (Almeida et al., 2019), as printed.

How `flops_m` were counted is not said there. They are more than the multiply-adds of convolutions and linear layers; a
rule that gives most of them back to the second decimal is in docs/multiply-adds.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    year: int
    flops_m: float
    params_m: float
    top1: float
    top5: float
    # Counted there, but in a head that serves training only, so not in the graph.
    training_parameters: int = 0


PUBLISHED = {
    "alexnet": Published(2012, 955.21, 61.10, 56.52, 79.07),
    "vgg11": Published(2014, 8171.57, 132.86, 69.02, 88.63),
    "vgg13": Published(2014, 11895.04, 133.05, 69.93, 89.25),
    "vgg16": Published(2014, 16063.36, 138.36, 71.59, 90.38),
    "vgg19": Published(2014, 20231.68, 143.67, 72.38, 90.88),
    "resnet18": Published(2015, 1836.82, 11.69, 69.76, 89.08),
    "resnet34": Published(2015, 3692.78, 21.80, 73.31, 91.42),
    "resnet50": Published(2015, 4154.96, 25.56, 76.13, 92.86),
    "resnet101": Published(2015, 7892.77, 44.55, 77.37, 93.55),
    "resnet152": Published(2015, 11636.60, 60.19, 78.31, 94.05),
    # 768 channels to a 1x1 convolution of 128, a 5x5 one of 768, both normalized, and a linear layer.
    "inception_v3": Published(2015, 5730.17, 27.16, 75.64, 92.59, training_parameters=3_326_696),
    "inception_v4": Published(2015, 12561.10, 42.68, 80.08, 94.89),
    "squeezenet1_0": Published(2016, 865.78, 1.25, 58.09, 80.42),
    "squeezenet1_1": Published(2016, 377.80, 1.24, 58.18, 80.62),
    "densenet121": Published(2017, 2928.89, 7.98, 74.43, 91.97),
    "densenet169": Published(2017, 3473.88, 14.15, 75.60, 92.81),
    "densenet201": Published(2017, 4435.03, 20.01, 76.87, 93.37),
    "densenet161": Published(2017, 7902.37, 28.68, 77.14, 93.56),
    "xception": Published(2017, 8494.59, 22.86, 78.89, 94.29),
    "mobilenet_v2": Published(2017, 336.43, 3.50, 71.81, 90.42),
    "shufflenet_v2_x0_5": Published(2018, 52.32, 1.37, 60.55, 81.75),
    "shufflenet_v2_x1_0": Published(2018, 160.09, 2.28, 69.36, 88.32),
    "mnasnet1_0": Published(2018, 649.51, 4.38, 61.95, 84.73),
    "pnasnet5large": Published(2018, 25945.87, 86.06, 82.74, 95.99),
    "nasnetalarge": Published(2018, 24882.21, 88.75, 82.51, 96.02),
    "nasnetamobile": Published(2018, 667.75, 5.29, 74.08, 91.74),
}
