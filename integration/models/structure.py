"""Object structures: document types with key paths, and the documents stored under them."""

from django.core.exceptions import ValidationError
from django.db import models
from jsonschema import Draft202012Validator, SchemaError

from integration.documents.exact_json import StoredDecoder
from integration.documents.patterns import BadPattern
from integration.documents.schemas import check_patterns
from integration.paths import BadPath, compile_path
from integration.plain import MOST_LEVELS, is_storable_json, nests_deeply


class ObjectStructure(models.Model):
    """A document type. `key_paths` are JSONPath (`$.…`) or XPath (`/…`) expressions."""

    class Tombstone(models.TextChoices):
        """The meaning of a message without a value for its key."""

        HOLD = "hold", "Hold it for a person"
        DELETE = "delete", "Delete the document of its key"

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    key_paths = models.JSONField(default=list, help_text='For example ["$.assetnum", "$.siteid"]')
    version_path = models.CharField(
        max_length=300,
        blank=True,
        help_text="Integer or timestamp in the payload that tells which document is newer.",
    )
    json_schema = models.JSONField(null=True, blank=True)
    tombstone = models.CharField(max_length=10, choices=Tombstone.choices, default=Tombstone.HOLD)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if not isinstance(self.key_paths, list) or not self.key_paths:
            raise ValidationError({"key_paths": "Name at least one path, as a JSON list."})
        paths_of = {
            "key_paths": self.key_paths,
            "version_path": [self.version_path] if self.version_path else [],
        }
        for field, paths in paths_of.items():
            for path in paths:
                if not isinstance(path, str):
                    raise ValidationError({field: f"{path!r:.80} is not a path."})
                try:
                    compile_path(path)
                except BadPath as e:
                    raise ValidationError({field: str(e)}) from e
        self._check_schema()

    def _check_schema(self) -> None:
        if self.json_schema is None:
            return
        if not is_storable_json(self.json_schema):
            text = (
                "It holds a NUL character, half of a character or a number without an end, and the "
                "database stores none of these. In a pattern write a character with two "
                "backslashes, such as \\\\u0000."
            )
            raise ValidationError({"json_schema": text})
        if nests_deeply(self.json_schema):
            text = f"It nests more than {MOST_LEVELS} levels deep."
            raise ValidationError({"json_schema": text})
        try:
            Draft202012Validator.check_schema(self.json_schema)
        except SchemaError as e:
            raise ValidationError({"json_schema": f"Not a JSON Schema: {e.message}"}) from e
        try:
            check_patterns(self.json_schema)
        except BadPattern as e:
            problem = ValidationError(f"{e} ({e.code})", code=e.code)
            raise ValidationError({"json_schema": problem}) from e


class ArrivedObject(models.Model):
    """A handler has said that an object is there (`integration.handlers.arrived`).

    Or it was stored under a key of which waiting messages have no more than the beginning.
    Needed for as long as a message may be under way that has not seen it; cleanup removes it.
    """

    object = models.BinaryField(help_text="kind and key, hashed")
    arrived_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["object", "arrived_at"], name="arrived_object"),
            models.Index(fields=["arrived_at"], name="arrived_by_age"),
        ]

    def __str__(self) -> str:
        return f"{bytes(self.object).hex()} at {self.arrived_at}"


class StoredObjects(models.QuerySet["StoredObject"]):
    """Queries of stored documents."""

    def without_documents(self) -> "StoredObjects":
        """Leave out the documents, each of which may have megabytes; `is_deleted` is known."""
        is_gone = models.Q(document__isnull=True, xml="")
        told = models.ExpressionWrapper(is_gone, output_field=models.BooleanField())
        return self.defer("document", "xml").annotate(_is_gone=told)


class StoredObject(models.Model):
    """One document of a structure, or the memory of its deletion (`document` null).

    Written only where its (arrival_batch, arrival_index) is newer than the stored one; topic
    UUID, partition and offset are provenance, not age.
    """

    structure = models.ForeignKey(
        ObjectStructure, on_delete=models.PROTECT, related_name="documents"
    )
    key = models.TextField()
    document = models.JSONField(null=True, decoder=StoredDecoder)
    xml = models.TextField(blank=True, help_text="The document as it came, when it is XML.")
    sort_version = models.DecimalField(max_digits=40, decimal_places=10, null=True)
    version = models.BigIntegerField(default=1)
    arrival_batch = models.BigIntegerField()
    arrival_index = models.BigIntegerField()
    message_id = models.TextField(blank=True)
    topic_uuid = models.CharField(max_length=36, blank=True)
    partition = models.IntegerField(null=True)
    offset = models.BigIntegerField(null=True)
    updated_at = models.DateTimeField()

    objects = StoredObjects.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["structure", "key"], name="one_document_per_key")
        ]

    def __str__(self) -> str:
        return f"{self.structure_id}:{self.key}"

    @property
    def is_deleted(self) -> bool:
        told: bool | None = self.__dict__.get("_is_gone")
        return self.document is None and not self.xml if told is None else told
