"""Audits in one piece: reading, writing and verifying bundles offline.

=============================  ==========================================================================
``verify.verify``              verify a bundle, a results folder, a dcp-audit bundle or an imported one
``screen.render``              what came of it, on one screen
``export.export``              write our bundle (:mod:`~dcpflow.bundles.format`) of a results folder
``interchange.export``         write a dcp-audit bundle of a results folder
``unpack.import_bundle``       make a folder of either kind of bundle
``imported.read``              an imported dcp-audit bundle in the protocol's terms
=============================  ==========================================================================
"""
