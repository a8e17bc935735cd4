"""The words of bulk runs as tags and filters of templates."""

from django import template

from console.bulk.words import bulk_state, fact_of, row_end, stage_words

register = template.Library()
register.filter(stage_words)
register.filter(fact_of)
register.simple_tag(bulk_state)
register.simple_tag(row_end)
