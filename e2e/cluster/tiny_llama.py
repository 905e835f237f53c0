"""Writes a random Llama of under two megabytes and its byte tokenizer into the folder given as the only argument.

Runs inside the engine environment, which has torch and transformers; nothing else of the test cluster imports it.
"""

import sys
from pathlib import Path

import torch  # type: ignore[import-not-found]
from tokenizers import Tokenizer, decoders, models, pre_tokenizers  # type: ignore[import-not-found]
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # type: ignore[import-not-found]

SEED = 20260101
BEGINNING = "<begin>"
END = "<end>"
CHAT_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"


def byte_vocabulary() -> dict[str, int]:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return {symbol: index for index, symbol in enumerate([*alphabet, BEGINNING, END])}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(vocab=byte_vocabulary(), merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGINNING,
        eos_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def random_llama() -> LlamaForCausalLM:
    """4 heads and 2 key-value heads: tensor parallel sizes 1 and 2 both fit."""
    torch.manual_seed(SEED)
    vocabulary = byte_vocabulary()
    configuration = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=vocabulary[BEGINNING],
        eos_token_id=vocabulary[END],
    )
    return LlamaForCausalLM(configuration)


def save(folder: Path) -> None:
    random_llama().save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)


if __name__ == "__main__":
    save(Path(sys.argv[1]))
