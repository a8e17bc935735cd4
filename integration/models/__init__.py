"""The tables. One noun a module; no decisions live here."""

from integration.models.bulk_run import BulkRun
from integration.models.channel import ChannelTarget, PublishChannel
from integration.models.configuration_change import ConfigurationChange
from integration.models.connection_factory import ConnectionFactory
from integration.models.delivery import Delivery, EndpointCircuit, EndpointTest
from integration.models.deployment import Deployment
from integration.models.event import EventKind, EventSubscription, PendingEvent
from integration.models.http_api import ApiToken, Receipt
from integration.models.jms_receipt import JmsReceipt
from integration.models.masking_rule import MaskingRule
from integration.models.message_error import ErrorAttempt, ErrorChange, MessageError
from integration.models.operation import Operation, OperationItem
from integration.models.outbox import OutboxChange, OutboxRow, RelayLease
from integration.models.partition import BatchLog, Gap, PartitionLease, QueuePartition
from integration.models.provider import Provider
from integration.models.queue import Queue
from integration.models.queue_change import QueueChange
from integration.models.queue_sample import QueueSample
from integration.models.registry_schema import RegistrySchema
from integration.models.rescue import Rescue, RescuedRecord
from integration.models.restore import Restore, RestoreFinding
from integration.models.structure import ArrivedObject, ObjectStructure, StoredObject
from integration.models.system import Endpoint, EnterpriseService, ExternalSystem
from integration.models.tally import Tally
from integration.models.tracking import MessageTrack, SeenMessage
from integration.models.xa import XaBranch, XaDecision

__all__ = [
    "ApiToken",
    "ArrivedObject",
    "BatchLog",
    "BulkRun",
    "ChannelTarget",
    "ConfigurationChange",
    "ConnectionFactory",
    "Delivery",
    "Deployment",
    "Endpoint",
    "EndpointCircuit",
    "EndpointTest",
    "EnterpriseService",
    "ErrorAttempt",
    "ErrorChange",
    "EventKind",
    "EventSubscription",
    "ExternalSystem",
    "Gap",
    "JmsReceipt",
    "MaskingRule",
    "MessageError",
    "MessageTrack",
    "ObjectStructure",
    "Operation",
    "OperationItem",
    "OutboxChange",
    "OutboxRow",
    "PartitionLease",
    "PendingEvent",
    "Provider",
    "PublishChannel",
    "Queue",
    "QueueChange",
    "QueuePartition",
    "QueueSample",
    "Receipt",
    "RegistrySchema",
    "RelayLease",
    "Rescue",
    "RescuedRecord",
    "Restore",
    "RestoreFinding",
    "SeenMessage",
    "StoredObject",
    "Tally",
    "XaBranch",
    "XaDecision",
]
