"""Builders for handlers that make the events of a response themselves (reference 6.3). No I/O.

    ResponseEventStream   every event of every kind of item, one call each
    TextResponse          one text

The names of the published package, so that a handler written for it runs after its import line is changed.
"""

from hosting.responses.builders._calls import (
    OutputItemCustomToolCallBuilder,
    OutputItemFunctionCallBuilder,
    OutputItemFunctionCallOutputBuilder,
    OutputItemMcpCallBuilder,
    OutputItemMcpListToolsBuilder,
)
from hosting.responses.builders._growth import CHECKPOINT
from hosting.responses.builders._hosted import (
    OutputItemCodeInterpreterCallBuilder,
    OutputItemFileSearchCallBuilder,
    OutputItemImageGenCallBuilder,
    OutputItemWebSearchCallBuilder,
)
from hosting.responses.builders._internal_metadata import INTERNAL_METADATA, public_response
from hosting.responses.builders._item import ItemEvents, OutputItemBuilder, closing
from hosting.responses.builders._message import OutputItemMessageBuilder, RefusalContentBuilder, TextContentBuilder
from hosting.responses.builders._reasoning import OutputItemReasoningItemBuilder, ReasoningSummaryPartBuilder
from hosting.responses.builders._stream import ResponseEventStream
from hosting.responses.builders._text_response import TextResponse, TextSource
from hosting.responses.builders._usage import whole_usage

__all__ = [
    "CHECKPOINT",
    "INTERNAL_METADATA",
    "ItemEvents",
    "OutputItemBuilder",
    "OutputItemCodeInterpreterCallBuilder",
    "OutputItemCustomToolCallBuilder",
    "OutputItemFileSearchCallBuilder",
    "OutputItemFunctionCallBuilder",
    "OutputItemFunctionCallOutputBuilder",
    "OutputItemImageGenCallBuilder",
    "OutputItemMcpCallBuilder",
    "OutputItemMcpListToolsBuilder",
    "OutputItemMessageBuilder",
    "OutputItemReasoningItemBuilder",
    "OutputItemWebSearchCallBuilder",
    "ReasoningSummaryPartBuilder",
    "RefusalContentBuilder",
    "ResponseEventStream",
    "TextContentBuilder",
    "TextResponse",
    "TextSource",
    "closing",
    "public_response",
    "whole_usage",
]
