"""The works that code, documentation and reports cite by key and place: `Leino2022, eq. 6.2`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_KEY = re.compile(r"\b[A-Z][a-z]+(?:19|20)\d\d\b")


@dataclass(frozen=True)
class Reference:
    """A work by its key: the first author's name and the year. Works with the same key share an entry."""

    key: str
    authors: str
    year: int
    title: str
    where: str

    def __str__(self) -> str:
        return f"{self.key}: {self.authors}, {self.title}, {self.where}, {self.year}."


def cite(text: str) -> tuple[str, ...]:
    """The full line of each work that a text cites.

    >>> cite("Leino2022, eq. 6.2")[0][:50]
    'Leino2022: Klas Leino, Identifying, Analyzing, and'
    """
    return tuple(str(REFERENCES[key]) for key in dict.fromkeys(_KEY.findall(text)) if key in REFERENCES)


_TABLE = """
Abadi2016 | Martin Abadi et al. | Deep learning with differential privacy | CCS
Abdalla2015 | Michel Abdalla, Florian Bourse, Angelo De Caro, David Pointcheval | Simple functional encryption schemes for inner products | PKC
Agrawal2016 | Shweta Agrawal, Benoît Libert, Damien Stehlé | Fully secure functional encryption for inner products, from standard assumptions | CRYPTO
Albrecht2018 | Martin Albrecht et al. | Homomorphic encryption security standard | HomomorphicEncryption.org
Andriushchenko2020 | Maksym Andriushchenko et al. | Square Attack: a query-efficient black-box adversarial attack via random search | ECCV
Athalye2018 | Anish Athalye, Nicholas Carlini, David Wagner | Obfuscated gradients give a false sense of security | ICML
Balle2018 | Borja Balle, Yu-Xiang Wang | Improving the Gaussian mechanism for differential privacy: analytical calibration and optimal denoising | ICML
Barak2001 | Boaz Barak et al. | On the (im)possibility of obfuscating programs | CRYPTO
Beaver1991 | Donald Beaver | Efficient multiparty protocols using circuit randomization | CRYPTO
Bengio2013 | Yoshua Bengio, Nicholas Léonard, Aaron Courville | Estimating or propagating gradients through stochastic neurons for conditional computation | arXiv 1308.3432
Bertran2023 | Martin Bertran et al. | Scalable membership inference attacks via quantile regression | NeurIPS
Carlini2017 | Nicholas Carlini, David Wagner | Towards evaluating the robustness of neural networks; Adversarial examples are not easily detected | S&P; AISec
Carlini2022 | Nicholas Carlini et al. | Membership inference attacks from first principles | S&P
Chaturvedi2019 | Akshay Chaturvedi, Utpal Garain | Mimic and Fool: a task-agnostic adversarial attack | arXiv 1906.04606
Chen2020 | Jianbo Chen, Michael Jordan, Martin Wainwright | HopSkipJumpAttack: a query-efficient decision-based attack | S&P
Chen2023 | Yanjiao Chen et al. | D-DAE: defense-penetrating model extraction attacks | S&P
Cheon2017 | Jung Hee Cheon, Andrey Kim, Miran Kim, Yongsoo Song | Homomorphic encryption for arithmetic of approximate numbers | ASIACRYPT
Chillotti2020 | Ilaria Chillotti, Nicolas Gama, Mariya Georgieva, Malika Izabachène | TFHE: fast fully homomorphic encryption over the torus | Journal of Cryptology
Choi2018 | Jungwook Choi et al. | PACT: parameterized clipping activation for quantized neural networks | arXiv 1805.06085
Choquette2021 | Christopher Choquette-Choo et al. | Label-only membership inference attacks | ICML
Cohen2019 | Jeremy Cohen, Elan Rosenfeld, Zico Kolter | Certified adversarial robustness via randomized smoothing | ICML
Costache2023 | Anamaria Costache, Benjamin Curtis, Erin Hales, Sean Murphy, Tabitha Ogilvie, Rachel Player | On the precision loss in approximate homomorphic encryption | SAC
Croce2020 | Francesco Croce, Matthias Hein | Reliable evaluation of adversarial robustness with an ensemble of diverse parameter-free attacks; Minimally distorted adversarial examples with a fast adaptive boundary attack | ICML
Croce2021 | Francesco Croce, Matthias Hein | Mind the box: l1-APGD for sparse adversarial attacks on image classifiers | ICML
De2022 | Soham De et al. | Unlocking high-accuracy differentially private image classification through scale | arXiv 2204.13650
Delattre2023 | Blaise Delattre et al. | Efficient bound of Lipschitz constant for convolutional layers by Gram iteration | ICML
Dhamdhere2019 | Kedar Dhamdhere, Mukund Sundararajan, Qiqi Yan | How important is a neuron? | ICLR
Dong2018 | Yinpeng Dong et al. | Boosting adversarial attacks with momentum | CVPR
Dowlin2016 | Nathan Dowlin et al. | CryptoNets: applying neural networks to encrypted data with high throughput and accuracy | ICML
Duchi2008 | John Duchi et al. | Efficient projections onto the l1-ball for learning in high dimensions | ICML
Dziugaite2016 | Gintare Karolina Dziugaite, Zoubin Ghahramani, Daniel Roy | A study of the effect of JPG compression on adversarial images | arXiv 1608.00853
Ebrahimi2018 | Javid Ebrahimi et al. | HotFlip: white-box adversarial examples for text classification | ACL
Escudero2020 | Daniel Escudero et al. | Improved primitives for MPC over mixed arithmetic-binary circuits | CRYPTO
Espeholt2018 | Lasse Espeholt et al. | IMPALA: scalable distributed deep-RL with importance weighted actor-learner architectures | ICML
Fortunato2018 | Meire Fortunato et al. | Noisy networks for exploration | ICLR
Ganju2018 | Karan Ganju et al. | Property inference attacks on fully connected neural networks using permutation invariant representations | CCS
Golub1999 | Todd Golub et al. | Molecular classification of cancer: class discovery and class prediction by gene expression monitoring | Science
Goodfellow2015 | Ian Goodfellow, Jonathon Shlens, Christian Szegedy | Explaining and harnessing adversarial examples | ICLR
Gopi2021 | Sivakanth Gopi, Yin Tat Lee, Lukas Wutschitz | Numerical composition of differential privacy | NeurIPS
Gu2014 | Shixiang Gu, Luca Rigazio | Towards deep neural network architectures robust to adversarial examples | arXiv 1412.5068
Guo2017 | Chuan Guo et al. | On calibration of modern neural networks | ICML
Halevi2014 | Shai Halevi, Victor Shoup | Algorithms in HElib | CRYPTO
He2015 | Kaiming He et al. | Delving deep into rectifiers: surpassing human-level performance on ImageNet classification | ICCV
He2016 | Kaiming He et al. | Deep residual learning for image recognition; Identity mappings in deep residual networks | CVPR; ECCV
He2019 | Zecheng He, Tianwei Zhang, Ruby Lee | Model inversion attacks against collaborative inference | ACSAC
Hendrycks2019 | Dan Hendrycks, Thomas Dietterich | Benchmarking neural network robustness to common corruptions and perturbations | ICLR
Hessel2018 | Matteo Hessel et al. | Rainbow: combining improvements in deep reinforcement learning | AAAI
Hinton2015 | Geoffrey Hinton, Oriol Vinyals, Jeff Dean | Distilling the knowledge in a neural network | arXiv 1503.02531
Holm1979 | Sture Holm | A simple sequentially rejective multiple test procedure | Scandinavian Journal of Statistics
Hu2023 | Kai Hu et al. | Unlocking deterministic robustness certification on ImageNet | NeurIPS
Hudson2018 | Drew Hudson, Christopher Manning | Compositional attention networks for machine reasoning | ICLR
Humphries2023 | Thomas Humphries et al. | Investigating membership inference attacks under data dependencies | CSF
Jaderberg2017 | Max Jaderberg et al. | Population based training of neural networks | arXiv 1711.09846
Jagielski2020 | Matthew Jagielski et al. | High accuracy and high fidelity extraction of neural networks | USENIX Security
Jamieson2016 | Kevin Jamieson, Ameet Talwalkar | Non-stochastic best arm identification and hyperparameter optimization | AISTATS
Jin2020 | Di Jin et al. | Is BERT really robust? A strong baseline for natural language attack on text classification and entailment (TextFooler) | AAAI
Johnson2017 | Justin Johnson et al. | CLEVR: a diagnostic dataset for compositional language and elementary visual reasoning | CVPR
Juuti2019 | Mika Juuti et al. | PRADA: protecting against DNN model stealing attacks | EuroS&P
Juvekar2018 | Chiraag Juvekar, Vinod Vaikuntanathan, Anantha Chandrakasan | GAZELLE: a low latency framework for secure neural network inference | USENIX Security
Kariyappa2020 | Sanjay Kariyappa, Moinuddin Qureshi | Defending against model stealing attacks with adaptive misinformation | CVPR
Katz2017 | Guy Katz et al. | Reluplex: an efficient SMT solver for verifying deep neural networks | CAV
Kim2018 | Been Kim et al. | Interpretability beyond feature attribution: quantitative testing with concept activation vectors (TCAV) | ICML
Krizhevsky2009 | Alex Krizhevsky | Learning multiple layers of features from tiny images | technical report, University of Toronto
Kurakin2016 | Alexey Kurakin, Ian Goodfellow, Samy Bengio | Adversarial examples in the physical world | arXiv 1607.02533
Lee2019 | Taesung Lee et al.; Juho Lee et al. | Defending against neural network model stealing attacks using deceptive perturbations; Set transformer: a framework for attention-based permutation-invariant neural networks | IEEE Security and Privacy Workshops; ICML
Leino2018 | Klas Leino et al. | Influence-directed explanations for deep convolutional networks | ITC
Leino2022 | Klas Leino | Identifying, Analyzing, and Addressing Weaknesses in Deep Networks | PhD thesis CMU-CS-22-104, Carnegie Mellon University
Li2021 | Baiyu Li, Daniele Micciancio | On the security of homomorphic encryption on approximate numbers | EUROCRYPT
Li2022 | Oscar Li et al.; Xuechen Li et al.; Baiyu Li et al. | Label leakage and protection in two-party split learning; Large language models can be strong differentially private learners; Securing approximate homomorphic encryption using differential privacy | ICLR; ICLR; CRYPTO
Lukas2022 | Nils Lukas et al. | SoK: how robust is image classification deep neural network watermarking? | S&P
Luo2015 | Yan Luo et al. | Foveation-based mechanisms alleviate adversarial examples | arXiv 1511.06292
Madry2018 | Aleksander Madry et al. | Towards deep learning models resistant to adversarial attacks | ICLR
Martic2018 | Miljan Martic, Jan Leike, Andrew Trask et al. | Scaling shared model governance via model splitting | arXiv 1812.05979; also as submitted to ICLR 2019
Metzen2017 | Jan Hendrik Metzen et al. | On detecting adversarial perturbations | ICLR
Mironov2019 | Ilya Mironov, Kunal Talwar, Li Zhang | Rényi differential privacy of the sampled Gaussian mechanism | arXiv 1908.10530
Mnih2016 | Volodymyr Mnih et al. | Asynchronous methods for deep reinforcement learning | ICML
Mohassel2018 | Payman Mohassel, Peter Rindal | ABY3: a mixed protocol framework for machine learning | CCS
Moosavi2016 | Seyed-Mohsen Moosavi-Dezfooli, Alhussein Fawzi, Pascal Frossard | DeepFool: a simple and accurate method to fool deep neural networks | CVPR
Naeini2015 | Mahdi Pakdaman Naeini, Gregory Cooper, Milos Hauskrecht | Obtaining well calibrated probabilities using Bayesian binning | AAAI
Newcombe1998 | Robert Newcombe | Interval estimation for the difference between independent proportions: comparison of eleven methods | Statistics in Medicine
Nguyen2018 | Linh Nguyen, Sky Wang, Arunesh Sinha | A learning and masking approach to secure learning | GameSec
Nixon2019 | Jeremy Nixon et al. | Measuring calibration in deep learning | CVPR workshops
Olah2017 | Chris Olah, Alexander Mordvintsev, Ludwig Schubert | Feature visualization | Distill
Orekondy2019 | Tribhuvanesh Orekondy, Bernt Schiele, Mario Fritz | Knockoff nets: stealing functionality of black-box models | CVPR
Orekondy2020 | Tribhuvanesh Orekondy, Bernt Schiele, Mario Fritz | Prediction poisoning: towards defenses against DNN model stealing attacks | ICLR
Papernot2016 | Nicolas Papernot et al. | The limitations of deep learning in adversarial settings; Distillation as a defense to adversarial perturbations against deep neural networks | EuroS&P; S&P
Papernot2017 | Nicolas Papernot et al. | Practical black-box attacks against machine learning | AsiaCCS
Papernot2021 | Nicolas Papernot et al. | Tempered sigmoid activations for deep learning with differential privacy | AAAI
Pintor2021 | Maura Pintor et al. | Fast minimum-norm adversarial attacks through adaptive norm constraints | NeurIPS
Rolnick2020 | David Rolnick, Konrad Kording | Reverse-engineering deep ReLU networks | ICML
Rony2019 | Jérôme Rony et al. | Decoupling direction and norm for efficient gradient-based L2 adversarial attacks and defenses | CVPR
Ross2018 | Andrew Ross, Finale Doshi-Velez | Improving the adversarial robustness and interpretability of deep neural networks by regularizing their input gradients | AAAI
Saha2020 | Soumadeep Saha | Towards Robust Deep Learning Systems: The Plasticity Hypothesis | MSc thesis, IISER Kolkata
Sarkar2017 | Sayantan Sarkar et al. | UPSET and ANGRI: breaking high performance image classifiers | arXiv 1707.01159
Schaul2016 | Tom Schaul et al. | Prioritized experience replay | ICLR
Selvaraju2017 | Ramprasaath Selvaraju et al. | Grad-CAM: visual explanations from deep networks via gradient-based localization | ICCV
Shafahi2019 | Ali Shafahi et al. | Adversarial training for free! | NeurIPS
Shanks1971 | Daniel Shanks | Class number, a theory of factorization, and genera | Proceedings of Symposia in Pure Mathematics
Shokri2017 | Reza Shokri et al. | Membership inference attacks against machine learning models | S&P
Simonyan2014 | Karen Simonyan, Andrea Vedaldi, Andrew Zisserman | Deep inside convolutional networks: visualising image classification models and saliency maps | ICLR workshop
Smilkov2017 | Daniel Smilkov et al. | SmoothGrad: removing noise by adding noise | arXiv 1706.03825
Song2021 | Liwei Song, Prateek Mittal | Systematic evaluation of privacy risks of machine learning models | USENIX Security
Steinke2023 | Thomas Steinke, Milad Nasr, Matthew Jagielski | Privacy auditing with one (1) training run | NeurIPS
Su2019 | Jiawei Su, Danilo Vargas, Kouichi Sakurai | One pixel attack for fooling deep neural networks | IEEE Transactions on Evolutionary Computation
Sundararajan2017 | Mukund Sundararajan, Ankur Taly, Qiqi Yan | Axiomatic attribution for deep networks | ICML
Szegedy2014 | Christian Szegedy et al. | Intriguing properties of neural networks | ICLR
Tan2019 | Mingxing Tan, Quoc Le | EfficientNet: rethinking model scaling for convolutional neural networks | ICML
Tang2024 | Minxue Tang et al. | ModelGuard: information-theoretic defense against model extraction attacks | USENIX Security
Tramer2016 | Florian Tramèr et al. | Stealing machine learning models via prediction APIs | USENIX Security
Tsuzuku2018 | Yusuke Tsuzuku, Issei Sato, Masashi Sugiyama | Lipschitz-margin training: scalable certification of perturbation invariance for deep neural networks | NeurIPS
Voracek2023 | Václav Voráček, Matthias Hein | Sound randomized smoothing in floating-point arithmetic | ICLR
Wang2004 | Zhou Wang et al. | Image quality assessment: from error visibility to structural similarity | IEEE Transactions on Image Processing
Wang2019 | Bolun Wang et al. | Neural Cleanse: identifying and mitigating backdoor attacks in neural networks | S&P
Wong2020 | Eric Wong, Leslie Rice, Zico Kolter | Fast is better than free: revisiting adversarial training | ICLR
Xie2018 | Cihang Xie et al. | Mitigating adversarial effects through randomization | ICLR
Xie2019 | Cihang Xie et al. | Improving transferability of adversarial examples with input diversity; Feature denoising for improving adversarial robustness | CVPR
Xu2018 | Weilin Xu, David Evans, Yanjun Qi | Feature squeezing: detecting adversarial examples in deep neural networks | NDSS
Xu2019 | Runhua Xu, James Joshi, Chao Li | CryptoNN: training neural networks over encrypted data | ICDCS
Yeom2018 | Samuel Yeom et al. | Privacy risk in machine learning: analyzing the connection to overfitting | CSF
Zarifzadeh2024 | Sajjad Zarifzadeh, Philippe Liu, Reza Shokri | Low-cost high-power membership inference attacks | ICML
Zhang2018 | Huan Zhang et al. | Efficient neural network robustness certification with general activation functions | NeurIPS
Zhang2019 | Hongyang Zhang et al. | Theoretically principled trade-off between robustness and accuracy | ICML
Zhou2004 | Dengyong Zhou et al. | Learning with local and global consistency | NeurIPS
"""  # noqa: E501


def _read(line: str) -> Reference:
    key, authors, title, where = (part.strip() for part in line.split("|"))
    return Reference(key, authors, int(key[-4:]), title, where)


REFERENCES: dict[str, Reference] = {found.key: found for found in map(_read, _TABLE.strip().splitlines())}
"""All of them by key, sorted."""
