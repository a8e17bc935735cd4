"""The names that the sample's configuration, handlers and traffic share."""

from typing import Final

PROVIDER: Final = "main"
SYSTEM: Final = "erp"
DEPOT: Final = "depot"
SUPPLIER: Final = "supplier"  # takes orders over HTTP
ARCHIVE: Final = "archive"  # takes orders as files
LEDGER: Final = "ledger"  # takes orders into a database of its own

ASSETS: Final = "erp-assets"  # inbound, sequential
MAINTENANCE: Final = "erp-maintenance"  # inbound, continuous
ERRORS: Final = "erp-errors"  # the error queue of the above
RECEIPTS: Final = "erp-receipts"  # outbound: confirmations of orders, read from Kafka
STOCK: Final = "depot-stock"  # inbound, continuous: the second partner's
TO_SUPPLIER: Final = "supplier-orders"  # outbound, one message of an order at a time
TO_ARCHIVE: Final = "archive-orders"  # outbound, sequential
TO_LEDGER: Final = "ledger-orders"  # outbound, continuous

TOPICS: Final = {
    ASSETS: "erp.assets",
    MAINTENANCE: "erp.maintenance",
    ERRORS: "erp.errors",
    RECEIPTS: "erp.receipts",
    STOCK: "depot.stock",
    TO_SUPPLIER: "supplier.orders",
    TO_ARCHIVE: "archive.orders",
    TO_LEDGER: "ledger.orders",
}

REGISTRATIONS: Final = "web-registrations"  # inbound: the example of `sample_registration`
REGISTRATIONS_TOPIC: Final = "web.registrations"
REGISTRATION: Final = "WEBREGISTRATION"

ASSET: Final = "MXASSETInterface"
ORDER: Final = "MXPOInterface"
METER: Final = "MXMETERInterface"
LOCATION: Final = "MXLOCATIONInterface"
INVENTORY: Final = "MXINVENTORYInterface"  # switched off
LEVEL: Final = "MXSTOCKInterface"
WORK_ORDER: Final = "MXWORKORDERInterface"  # sent by the partner, known to nobody
PURCHASE: Final = "MXPURCHASEInterface"  # the publish channel of approved orders

ORDERS: Final = "sample-orders"  # the structure that remembers each order's revision
LEVELS: Final = "sample-stock-levels"  # the structure that remembers each item's newest level
LOCATIONS: Final = "sample-locations"  # the structure that locations are stored into

SUPPLIER_ADDRESS: Final = "supplier-orders"  # the endpoints of the three partners
ARCHIVE_FOLDER: Final = "archive-folder"
LEDGER_TABLE: Final = "ledger-table"
TOKEN: Final = "sample-traffic"  # noqa: S105 - its name

SYSTEMS: Final = (SYSTEM, DEPOT, SUPPLIER, ARCHIVE, LEDGER)
TARGETS: Final = {TO_SUPPLIER: SUPPLIER, TO_ARCHIVE: ARCHIVE, TO_LEDGER: LEDGER}
SENDERS: Final = {
    queue: TARGETS.get(queue) or (DEPOT if queue == STOCK else SYSTEM) for queue in TOPICS
}
SERVICES: Final = (ASSET, ORDER, METER, LOCATION, INVENTORY, LEVEL)
STRUCTURES: Final = (ORDERS, LOCATIONS, LEVELS)
ENDPOINTS: Final = (SUPPLIER_ADDRESS, ARCHIVE_FOLDER, LEDGER_TABLE)
