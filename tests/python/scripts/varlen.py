"""Attention within the pieces of packed rows, in place of flash_attn.flash_attn_varlen_func, which
needs a GPU. The arguments have the same names, order and meaning."""

import torch


def attention(q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0,
              softmax_scale=None, causal=False):
    """q, k, v: [elements, heads, width]."""
    assert cu_seqlens_q.dtype == cu_seqlens_k.dtype == torch.int32 and dropout_p == 0.0
    ends = cu_seqlens_q.tolist()
    assert ends == cu_seqlens_k.tolist() and ends[0] == 0 and ends[-1] == len(q)
    longest = max((b - a for a, b in zip(ends, ends[1:])), default=0)
    assert 0 < longest <= max_seqlen_q == max_seqlen_k
    parts = [_attend(*(one[a:b].transpose(0, 1) for one in (q, k, v)), softmax_scale, causal)
             for a, b in zip(ends, ends[1:])]
    return torch.cat(parts, 1).transpose(0, 1)


def _attend(q, k, v, scale, causal):
    scores = q @ k.transpose(1, 2) * (scale or q.shape[-1] ** -0.5)
    if causal:
        scores = scores.masked_fill(torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -torch.inf)
    return scores.softmax(-1) @ v
