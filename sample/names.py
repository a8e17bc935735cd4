"""The names that the sample's configuration, handlers and traffic share."""

from typing import Final

PROVIDER: Final = "main"
SYSTEM: Final = "erp"
DEPOT: Final = "depot"

ASSETS: Final = "erp-assets"  # inbound, sequential
MAINTENANCE: Final = "erp-maintenance"  # inbound, continuous
ERRORS: Final = "erp-errors"  # the error queue of the above
RECEIPTS: Final = "erp-receipts"  # outbound: confirmations of orders
STOCK: Final = "depot-stock"  # inbound, continuous: the second partner's

TOPICS: Final = {
    ASSETS: "erp.assets",
    MAINTENANCE: "erp.maintenance",
    ERRORS: "erp.errors",
    RECEIPTS: "erp.receipts",
    STOCK: "depot.stock",
}

ASSET: Final = "MXASSETInterface"
ORDER: Final = "MXPOInterface"
METER: Final = "MXMETERInterface"
LOCATION: Final = "MXLOCATIONInterface"
INVENTORY: Final = "MXINVENTORYInterface"  # switched off
LEVEL: Final = "MXSTOCKInterface"
WORK_ORDER: Final = "MXWORKORDERInterface"  # sent by the partner, known to nobody

ORDERS: Final = "sample-orders"  # the structure that remembers each order's revision
LEVELS: Final = "sample-stock-levels"  # the structure that remembers each item's newest level
LOCATIONS: Final = "sample-locations"  # the structure that locations are stored into

SYSTEMS: Final = (SYSTEM, DEPOT)
SENDERS: Final = {queue: DEPOT if queue == STOCK else SYSTEM for queue in TOPICS}
SERVICES: Final = (ASSET, ORDER, METER, LOCATION, INVENTORY, LEVEL)
STRUCTURES: Final = (ORDERS, LOCATIONS, LEVELS)
