"""Symmetric memories as their triangle alone: k(k+1)/2 values, read and written in place.

    packed  [p]   C_00  C_10 C_11  C_20 C_21 C_22  …        p = k(k+1)/2, C_ij at i(i+1)/2 + j for j ≤ i

This is the lower triangle row by row and, as C is symmetric, BLAS's own packed type: the upper triangle column by
column (`uplo = 'U'`). So a lookup is `?spmv` and an update `?spr`, on the stored bytes.
"""
