"""Berth behind ZenML: ZenML's resource pools, decided by a Berth server.

Switched on with `ZENML_SERVER_RESOURCE_POOL_IMPLEMENTATION_SOURCE=zenml_berth.store.BerthResourcePools`.
"""

__version__ = "0.1.0"
