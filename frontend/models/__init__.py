"""Models of Hugging Face's folders, written in `tg.nn`: read, run, trained and written back without PyTorch."""

from tensorgrad.models.bert import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertOptions,
)
from tensorgrad.models.distilbert import (
    DistilBertForMaskedLM,
    DistilBertForSequenceClassification,
    DistilBertModel,
    DistilBertOptions,
)
from tensorgrad.models.folders import from_pretrained, save_pretrained
from tensorgrad.models.generation import LanguageModel
from tensorgrad.models.gguf_files import save_gguf
from tensorgrad.models.gpt2 import GPT2LMHeadModel, GPT2Options
from tensorgrad.models.llama import LlamaForCausalLM
from tensorgrad.models.llama_options import LlamaOptions
from tensorgrad.models.vit import ViTForImageClassification, ViTModel, ViTOptions
from tensorgrad.surface.calls import publish

__all__ = [
    "BertForMaskedLM",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "BertModel",
    "BertOptions",
    "DistilBertForMaskedLM",
    "DistilBertForSequenceClassification",
    "DistilBertModel",
    "DistilBertOptions",
    "GPT2LMHeadModel",
    "GPT2Options",
    "LanguageModel",
    "LlamaForCausalLM",
    "LlamaOptions",
    "ViTForImageClassification",
    "ViTModel",
    "ViTOptions",
    "from_pretrained",
    "save_gguf",
    "save_pretrained",
]

publish(globals())
