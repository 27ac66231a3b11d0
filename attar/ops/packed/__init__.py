"""Symmetric memories as their lower triangle, row by row: C_ij at i(i+1)/2 + j for j ≤ i, BLAS's own packed type."""
