"""The plans of the OpenID Foundation: no module fails, but for the ones that are excepted here."""

import pytest

STATIC = {"server_metadata": "discovery", "client_registration": "static_client"}

# The suite puts `response_mode=form_post` only into the request object, and wants the error as form_post. A server that
# does not support request objects does not read them, so the error goes where the parameters of the request say.
ONLY_IN_THE_REQUEST_OBJECT = "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported"

PLANS = [
    ("oidcc-config-certification-test-plan", {}, set()),
    ("oidcc-basic-certification-test-plan", STATIC, set()),
    ("oidcc-formpost-basic-certification-test-plan", STATIC, {ONLY_IN_THE_REQUEST_OBJECT}),
    (
        "oidcc-rp-initiated-logout-certification-test-plan",
        {"client_registration": "static_client", "response_type": "code"},
        set(),
    ),
]


@pytest.mark.parametrize("plan, variant, excepted", PLANS, ids=[plan for plan, *_ in PLANS])
def test_a_plan_has_no_failure(suite, configuration, plan, variant, excepted):
    outcomes = list(suite.run(plan, variant, configuration))
    assert outcomes, "the plan has modules"
    failed = {outcome.module for outcome in outcomes if outcome.has_failed()}
    assert failed == excepted, [outcome for outcome in outcomes if outcome.module in failed ^ excepted]
