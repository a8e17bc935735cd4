"""The names that the example's configuration, handler and traffic share."""

from typing import Final

PROVIDER: Final = "main"
SYSTEM: Final = "store"

REQUEST: Final = "PAYMENTREQUEST"
NOTICE: Final = "PAYMENTNOTICE"

REQUESTS: Final = "payment-requests"  # inbound, continuous
NOTICES: Final = "payment-notices"  # outbound: the store reads its topic
TOPICS: Final = {REQUESTS: "payment-requests", NOTICES: "payment-notices"}
PARTITIONS: Final = 3

JMS_PROVIDER: Final = "payments-jms"
JMS_REQUESTS: Final = "payments-by-jms"  # inbound, from the JMS queue below
JMS_ADDRESS: Final = "payments"
