"""What goes wrong while a payment is told of never fails the payment."""

from foundation.kernel.repeated_logs import repeated_logs
from foundation.telemetry import traces
from payments.models import Payment


def test_a_payment_is_approved_and_answered_whatever_becomes_of_its_trace(api, payment, settings, monkeypatch, caplog):
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:1"

    def break_down():
        raise RuntimeError

    monkeypatch.setattr(traces, "_tracer", break_down)
    repeated_logs.forget()

    response = api.pay(payment)

    assert response.status_code == 201
    assert Payment.objects.filter(pk=response.json()["id"]).exists()
    assert "A payment cannot be traced: RuntimeError" in caplog.text
