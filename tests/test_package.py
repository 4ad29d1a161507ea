"""What each package exports, and that importing ModelKeep stays cheap."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import modelkeep
from modelkeep.core.errors import MissingExtra, ModelKeepError

SOURCE = Path(modelkeep.__file__).parent
# The public names of every package, in the order of its `__all__`. A name that is added here is a promise: see
# "Rename or remove a public name" in CONTRIBUTING.
EXPORTS = {
    "": """
        Cut Data Estimate Labels Leaf Model ModelKeepError Nest Preprocessing Result Scores Slice Weights architectures
        attack audit bias certify check_method completion datasets encrypt explain extract govern guard harden
        pretrained privacy report rl study training
    """,
    "attack": """
        APGD BIM CW DDN FAB FGSM FMN ILCM JSMA LBFGS LEAST_LIKELY PGD UPSET APGDTargeted Attack Attacked
        Boundary BoundedAttack Case DeepFool HotFlip Mimic Momentum OnePixel ProxySet RobustnessCurve Square Standard
        Substitution Target Transfer Transferred Upset bpda eot proxy_set resume_from robustness_curve
    """,
    "audit": "Audit Finding Section Settings audit audit_page",
    "bias": """
        Amplification Asymmetry ExpertMitigation MeasureAmplification MeasureAsymmetry Mitigated
        ParityMitigation SparseMitigation bayes_amplification bayes_classifier mahalanobis
    """,
    "certify": """
        ABSTAINED EMMA Affinity Certified Certify GloRoCrossEntropy GloRoNet GloRoTrades Guarantee Lipschitz
        LipschitzBelow LipschitzMargin LipschitzSearch NamedSets NoisyTraining RelaxedTopK Smooth Smoothed Standard
        Surface lipschitz make_orthogonal surface train_certified
    """,
    "certify.rules": "RULES Call NoRule Value Written elementwise export layers",
    "certify.verifier": "Check Given Refused Report fingerprint verify",
    "cli": "app main",
    "cli.encrypt": "app",
    "cli.govern": "app",
    "cli.guard": "app",
    "completion": """
        PROCEDURES SCHEMES Curve Hardness Modulation Part Problem Procedure Ratio Recording RetrainedModel Retraining
        measure_hardness modulate parts_of ratio read_procedure record reset train_and_measure train_from_scratch
    """,
    "completion.procedures": "PROCEDURES Procedure read_procedure",
    "core.contract": "Checked ContractViolation Method check_method",
    "core.formats": "Reading read write",
    "core.slices": "Cut Place Slice cut one_path places",
    "encrypt": """
        AccessControl AccessPolicy Authority Bits Client FirstLayerGradients FirstLayerServer FixedPoint
        GuardedApplication SharedInference SharedTraining infer_on_shares plan_inference quantise
        run_encrypted train_integers train_on_ciphertexts train_on_shares
    """,
    "explain": """
        TCAV AgainstAll Channel ChannelInfluence ClassScore Concept ConceptSensitivity Conductance Contrast
        DataSet Distribution Exemplars Experts ExplainUnits Explained Explainer FindExemplars FindShortcuts
        Gaussian GradCAM Influence Inside IntegratedGradients IsolationTest Line Localisation MeasureExperts
        MeasureSoundness OcclusionCurve OcclusionTest OfInner OfLogits Path Point Points PredictedScore Quantity
        Saliency Sampler Shortcuts SmoothGrad Soundness Suspect Transformations Unit UnitSheet Visualise
        Visualised learn_concept measure_localisation
    """,
    "extract": """
        DDAE S4L AdaptiveKnockoff Asked Attack Combined DDAEPlus Extract Extraction FidelityCurve Guarded
        JacobianAugmentation Knockoff Labelled LabelsOnly Listed Naive PartialBayes PerfectBayes Remote Repeated
        Smoothing Strategy Target
    """,
    "extract.parameters": "Boundaries Distance Recovery Stolen compare lemma_one steal uncover",
    "govern": """
        Advice Agreement Audit ConsentState Evaluated Folder Identity Leader Limits Material Party Pass Policy
        PublicIdentity Trained Window Wire advise assemble audit draft evaluate infer infer_labels invert
        read_ledger serve split train
    """,
    "govern.consent": "Approval Board ConsentDecision ConsentState Policy Rate Waiting Window read_policy",
    "govern.exposure": "Advice AtCut Completing Completion Costs Inversion LabelLeak Link advise infer_labels invert",
    "govern.ledger": "Audit Crossing Entry Event Finding Ledger LedgerReader audit read_ledger",
    "guard": """
        MAD AdaptiveMisinformation Defence Gate InformationBound ModelGuardS ModelGuardW NoDefence Policy
        ReverseSigmoid Rounding TopOne Unordered calibrate_beta calibrate_threshold confidences copy_untrained
        information_bound misinform open_store snap
    """,
    "guard.defences": """
        MAD AdaptiveMisinformation Centroids ModelGuardS ModelGuardW NoDefence ReverseSigmoid Rounding TopOne
        Unordered calibrate_beta calibrate_threshold misinform
    """,
    "guard.store": "Event Lease Principal Store open_store",
    "harden": """
        BitDepth Contractive DefenceMaker DefendedModel Detected Detector Distillation Evaded FGSMTraining
        FastTraining Foveate FreeTraining GradientRegularisation Hardened Jpeg LogitNoise MedianSmoothing
        PGDTraining RandomResize Scoreboard Scored Setting Trades calibrate defended distil evade
        feature_squeezing harden judge make_defences score scoreboard together train_detector with_autoencoder
        with_denoising
    """,
    "papers.saha2020.scenes": """
        ANSWERS ATTRIBUTES FAMILIES LONGEST VOCABULARY Program Question Scene Thing ask draw_picture draw_scene
        execute find_thing tokens
    """,
    "privacy": """
        DPSGD RMIA AuditEpsilon AuditedEpsilon BayesianWhiteBox Entropy FindWeightLeak InferProperty InvertModel
        Inverted Knowledge LearnedWhiteBox LiRA Loss Membership MembershipAttack ModifiedEntropy Naive Noise
        PrivatelyTrained PropertyInferred Quantile ShadowClassifier Shadows Watermark WeightLeak draw_watermarks
        train_shadows
    """,
    "privacy.membership": """
        RMIA BayesianWhiteBox Entropy Knowledge LearnedWhiteBox LiRA Loss Membership MembershipAttack ModifiedEntropy
        Naive Noise Quantile ShadowClassifier
    """,
    "privacy.private_training": """
        DPSGD AuditEpsilon AuditedEpsilon PrivateGradients PrivatelyTrained advantage_bounds epsilon_of noise_for
    """,
    "privacy.property": "InferProperty PropertyInferred Watermark draw_watermarks",
    "report": """
        AttackReport Bias Card Explanations Measure Note Page Part Picture PrivacyReport Table attack_page bias_page
        completion_page explain_examples explanations_page extraction_page hardening_page measure_bias measure_privacy
        privacy_page private_training_page
    """,
    "rl": """
        A2C A2CSettings Agent Environments Impala ImpalaSettings Learned Player Population Rainbow RainbowSettings
        StepResult learn make play_episodes random_player
    """,
    "rl.impala": "ATARI LAB MINATAR Impala ImpalaNetwork ImpalaSettings Population PopulationSettings minatar_network",
    "rl.rainbow": "ATARI MINATAR Rainbow RainbowNetwork RainbowSettings Replay atari_rainbow minatar_rainbow",
    "study": "Ledger Limits Local Ray Record Study StudyResult Trial grid run trial workdir working_in",
    "training": """
        DEFAULT SGD TFDS Adam Augmentation EarlyStop Evaluation ExponentialAfterHalf Fitted Linear Logarithmic Loss
        Objective OwnGradients RMSProp Recipe Schedule SoftAnswers Stateful Step StepDecay at cross_entropy evaluate
        fit
    """,
    "zoo.architectures": """
        MinMax alexnet cnn_2c2f cnn_4c3f cnn_6c2f cnn_8c2f cnn_8c2f_full deep_cnn dense efficientnet_lite0 lenet
        minilm names resnet50 resnet50_v1 shallow_cnn small_alexnet small_cnn small_liresnet small_resnet text_lstm
        text_transformer vgg16_bn
    """,
    "zoo.datasets": """
        DataSet Summary Texts from_huggingface from_torch get info is_cached load load_texts names open summarise
    """,
}
MOST_NAMES = 605


def _exports(file: Path) -> list[str] | None:
    """The literal `__all__` of a package, read without importing it."""
    for statement in ast.parse(file.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            exports: list[str] = ast.literal_eval(statement.value)
            return exports
    return None


def _packages() -> dict[str, Path]:
    return {".".join(file.parent.relative_to(SOURCE).parts): file for file in sorted(SOURCE.rglob("__init__.py"))}


def test_every_package_exports_these_names() -> None:
    found = {package: _exports(file) for package, file in _packages().items()}
    assert {package: names for package, names in found.items() if names is not None} == {
        package: names.split() for package, names in EXPORTS.items()
    }
    assert sum(len(names.split()) for names in EXPORTS.values()) < MOST_NAMES


@pytest.mark.parametrize("package", sorted(set(_packages()) - set(EXPORTS)))
def test_a_package_without_a_list_exports_nothing(package: str) -> None:
    for statement in ast.parse(_packages()[package].read_text()).body:
        assert isinstance(statement, ast.Expr), f"{package} defines something: give it an __all__"


@pytest.mark.parametrize("package", EXPORTS)
def test_every_exported_name_is_there(package: str) -> None:
    module = import_module(f"modelkeep.{package}".rstrip("."))
    missing = [name for name in EXPORTS[package].split() if not hasattr(module, name)]
    assert missing == []


def test_a_lazy_package_lists_its_names_and_refuses_others() -> None:
    for name in modelkeep.__all__:
        assert getattr(modelkeep, name).__name__.rpartition(".")[2] == name
    assert dir(modelkeep) == sorted(modelkeep.__all__)
    with pytest.raises(AttributeError, match="module 'modelkeep' has no attribute 'nothing'"):
        _ = modelkeep.nothing  # type: ignore[attr-defined]


def test_the_rooms_are_there_after_a_plain_import_and_are_loaded_on_first_use() -> None:
    code = (
        "import sys, modelkeep; assert 'modelkeep.attack' not in sys.modules;"
        "assert {'attack', 'explain', 'training'} <= set(dir(modelkeep));"
        "print(modelkeep.attack.PGD.__name__, 'modelkeep.explain' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["PGD", "False"]
    rooms = {folder.parent.name for folder in SOURCE.glob("*/__init__.py")} - {"cli", "core", "papers", "web", "zoo"}
    assert rooms <= set(modelkeep.__all__)


def _public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for package, names in EXPORTS.items():
        module = import_module(f"modelkeep.{package}".rstrip("."))
        for name in names.split():
            thing = getattr(module, name)
            if inspect.isclass(thing):
                for method, function in inspect.getmembers(thing, inspect.isroutine):
                    if method == "__call__" or not method.startswith("_"):
                        yield f"{package}.{name}.{method}", function
            elif inspect.isfunction(thing):
                yield f"{package}.{name}", thing


def test_a_seed_that_is_a_keyword_is_0_by_default() -> None:
    seeds = {
        name: inspect.signature(function).parameters["seed"]
        for name, function in _public_callables()
        if "seed" in _parameters(function)
    }
    assert len(seeds) > 60
    keywords = {name: seed for name, seed in seeds.items() if seed.kind is inspect.Parameter.KEYWORD_ONLY}
    assert [name for name, seed in keywords.items() if seed.default != 0] == []
    assert seeds[".Data.sample"].default == 0


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a property, or of what is written in C
        return {}


USER_SCRIPT = """
import modelkeep
from modelkeep import Data, Model

train: Data = modelkeep.datasets.load("digits")
model: Model = Model.load("model.onnx", like=train)
part, rest = train.split(0.5, 0.5)
attacked: modelkeep.attack.Attacked = modelkeep.attack.PGD(radius=0.1)(model, part.sample(10))
fitted = modelkeep.training.fit(model, rest, modelkeep.training.cross_entropy, modelkeep.training.Recipe(epochs=1))
reveal_type(fitted)
reveal_type(attacked.draw())
modelkeep.attack.PGD(radius="far")
modelkeep.nothing
"""


def test_type_checkers_see_everything(tmp_path: Path) -> None:
    """A user's script, checked strictly: in the house's folder, whose cache `make check` has filled."""
    script = tmp_path / "mine.py"
    script.write_text(USER_SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", str(script)]
    run = subprocess.run(command, cwd=SOURCE.parents[1], capture_output=True, text=True)
    told = [line.partition("mine.py:")[2] for line in run.stdout.splitlines() if "mine.py:" in line]
    assert len(told) == 4, run.stdout + run.stderr
    assert 'note: Revealed type is "modelkeep.training.history.Fitted"' in told[0]
    assert "matplotlib.figure.Figure" in told[1]
    assert 'incompatible type "str"; expected "float"' in told[2]
    assert 'Module has no attribute "nothing"' in told[3]


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = ("matplotlib", "scipy", "sklearn", "pandas", "ray", "onnx", "rich", "typer", "jinja2")
    code = f"import sys, modelkeep; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_core_types_load_nothing_heavy_beside_torch() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); from modelkeep import Data, Model, Result, Slice, Scores;"
        "print([m for m in ('matplotlib', 'scipy', 'sklearn', 'pandas', 'ray', 'onnx', 'rich') "
        "if m in set(sys.modules) - before])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_a_missing_extra_says_how_to_install_it() -> None:
    error = MissingExtra("scale", "ray", "Running a study on Ray")
    assert isinstance(error, ModelKeepError)
    assert isinstance(error, ImportError)
    assert str(error) == (
        "Running a study on Ray needs the package 'ray', which is not installed. "
        "Install it with: pip install 'modelkeep[scale]'"
    )
