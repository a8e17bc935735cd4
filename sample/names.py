"""The names that the sample's configuration, handlers and traffic share."""

from typing import Final

PROVIDER: Final = "main"
SYSTEM: Final = "erp"

ASSETS: Final = "erp-assets"  # inbound, sequential
MAINTENANCE: Final = "erp-maintenance"  # inbound, continuous
ERRORS: Final = "erp-errors"  # the error queue of the above
RECEIPTS: Final = "erp-receipts"  # outbound: confirmations of orders

TOPICS: Final = {
    ASSETS: "erp.assets",
    MAINTENANCE: "erp.maintenance",
    ERRORS: "erp.errors",
    RECEIPTS: "erp.receipts",
}

ASSET: Final = "MXASSETInterface"
ORDER: Final = "MXPOInterface"
METER: Final = "MXMETERInterface"
LOCATION: Final = "MXLOCATIONInterface"
INVENTORY: Final = "MXINVENTORYInterface"  # switched off
WORK_ORDER: Final = "MXWORKORDERInterface"  # sent by the partner, known to nobody

ORDERS: Final = "sample-orders"  # the structure that remembers each order's revision
LOCATIONS: Final = "sample-locations"  # the structure that locations are stored into
