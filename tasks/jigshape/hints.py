"""Similarity hints: pieces grouped by the colours they show, as the paper's appendix tries."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image, ImageCms
from scipy.cluster.hierarchy import fcluster, linkage

from tasks.jigshape.geometry import geometry
from tasks.jigshape.spec import Spec

_BINS = 8
_TO_LAB = ImageCms.buildTransform(ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB")


def similar_pieces(spec: Spec, target: dict[str, Any], pixels: np.ndarray) -> list[list[int]]:
    """Ids in at most N groups of like colour, each sorted, in the order of their first ids.

    Ward clusters of the square roots of the pieces' histograms, eight bins for each channel of CIELAB.
    pixels: what the pieces are cut from, uint8 (N*p, N*p, 3).
    """
    grid, piece = spec.grid, geometry(spec).piece
    lab = np.asarray(ImageCms.applyTransform(Image.fromarray(pixels), _TO_LAB)).copy()  # (N*p, N*p, 3)
    lab[..., 1:] ^= 128  # Pillow keeps a and b as signed bytes
    bins = (lab // (256 // _BINS)).reshape(grid, piece, grid, piece, 3).transpose(0, 2, 4, 1, 3)
    bins = bins.reshape(grid, grid, 3, piece * piece)
    histograms = np.stack([(bins == value).mean(axis=-1) for value in range(_BINS)], axis=-1)  # (N, N, 3, bins)
    rows, columns = np.array(target["cells"]).T
    features = np.sqrt(histograms[rows, columns].reshape(spec.num_pieces, -1))  # (N², 3 * bins)
    groups = fcluster(linkage(features, "ward"), grid, criterion="maxclust")
    ids = [np.flatnonzero(groups == group).tolist() for group in np.unique(groups)]
    return sorted(ids)
