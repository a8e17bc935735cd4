"""The words of operations as tags and filters of templates."""

from django import template

from console.operations.words import became, operation_state, outcome_words, time_to_go

register = template.Library()
register.simple_tag(operation_state)
register.simple_tag(became)
register.filter(outcome_words)
register.filter(time_to_go)
