"""The words of operations as tags and filters of templates."""

from functools import partial

from django import template

from console.layout.words import badge, worded
from console.operations.words import BECAME, OUTCOMES, STATES

register = template.Library()
register.simple_tag(partial(badge, STATES), name="operation_state")
register.simple_tag(partial(badge, BECAME), name="became")
register.filter("outcome_words", partial(worded, OUTCOMES))
