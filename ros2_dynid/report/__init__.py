# SPDX-License-Identifier: Apache-2.0

"""Reports of an identification: one HTML page, figures for papers, and tables.

`build` writes them, with tables for papers and comparisons of models; `page` is the HTML, `page_data` what it shows,
`figures` are for papers.
"""
