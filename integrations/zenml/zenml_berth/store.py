"""ZenML's resource pools, kept by Berth. ZenML's own tables are a mirror, for its ids, filters and pages.

Berth decides; the rows here say what it decided last. Names of parameters are ZenML's: it calls by keyword.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple
from uuid import UUID

import berth
from sqlmodel import Session, select
from zenml.exceptions import EntityExistsError, IllegalOperationError
from zenml.logger import get_logger
from zenml.models import (
    Page,
    ResourcePoolFilter,
    ResourcePoolRequest,
    ResourcePoolResponse,
    ResourcePoolSubjectPolicyFilter,
    ResourcePoolSubjectPolicyRequest,
    ResourcePoolSubjectPolicyResponse,
    ResourcePoolSubjectPolicyUpdate,
    ResourcePoolUpdate,
    ResourceRequestFilter,
    ResourceRequestRequest,
    ResourceRequestResponse,
)
from zenml.models.v2.core.resource_pool import ResourcePoolAllocation, ResourcePoolQueueItem
from zenml.zen_stores.resource_pools.store_interface import ResourcePoolsSQLStoreInterface
from zenml.zen_stores.schemas import StackComponentSchema, StepRunSchema
from zenml.zen_stores.schemas.resource_pool_policy_schemas import (
    ResourcePoolSubjectPolicyResourceSchema,
    ResourcePoolSubjectPolicySchema,
)
from zenml.zen_stores.schemas.resource_pool_schemas import (
    ResourcePoolAllocationSchema,
    ResourcePoolQueueSchema,
    ResourcePoolResourceSchema,
    ResourcePoolSchema,
)
from zenml.zen_stores.schemas.resource_request_schemas import ResourceRequestResourceSchema, ResourceRequestSchema

from . import mapping
from .client import BerthPools
from .keeper import Entry, Keeper
from .settings import read_settings

logger = get_logger(__name__)

_keepers: Dict[int, Keeper] = {}
_keepers_lock = threading.Lock()


class BerthResourcePools(ResourcePoolsSQLStoreInterface):
    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.pools = BerthPools(read_settings())
        # ZenML may construct this twice for one store; one keeper is enough.
        with _keepers_lock:
            if id(store) not in _keepers:
                _keepers[id(store)] = Keeper(self.pools, RowBook(self))
                _keepers[id(store)].start()

    # --- Pools

    def create_resource_pool(self, resource_pool: ResourcePoolRequest) -> ResourcePoolResponse:
        with self._session() as session, _zenml_errors():
            self.store._set_request_user_id(request_model=resource_pool, session=session)
            pool = self.pools.create_pool(resource_pool.name, resource_pool.capacity, resource_pool.description)
            row = _born(ResourcePoolSchema.from_request(resource_pool), pool)
            session.add(row)
            session.flush()
            self._mirror_pool(session, row, pool, resource_pool.capacity)
            session.commit()
            return row.to_model(include_metadata=True, include_resources=True)

    def get_resource_pool(self, resource_pool_id: UUID, hydrate: bool = True) -> ResourcePoolResponse:
        with self._session() as session, _zenml_errors():
            row = self._pool(session, resource_pool_id)
            self._mirror_pool(session, row, self.pools.get_pool(row.name))
            self._mirror_queue(session, row)
            session.commit()
            model = row.to_model(include_metadata=hydrate, include_resources=True)
            if hydrate and model.metadata is not None:
                model.metadata.active_requests = self._active(session, row)
                model.metadata.queued_requests = self._queued(session, row)
            return model

    def list_resource_pools(
        self, filter_model: ResourcePoolFilter, hydrate: bool = False
    ) -> Page[ResourcePoolResponse]:
        with self._session() as session, _zenml_errors():
            self._mirror_all_pools(session)
            session.commit()
            return self._page(session, ResourcePoolSchema, filter_model, hydrate)

    def update_resource_pool(self, resource_pool_id: UUID, update: ResourcePoolUpdate) -> ResourcePoolResponse:
        with self._session() as session, _zenml_errors():
            row = self._pool(session, resource_pool_id)
            pool = self.pools.update_pool(row.name, update.capacity, update.description)
            row.update(update)
            keys = {**{one.key: one.total for one in row.resources}, **(update.capacity or {})}
            self._mirror_pool(session, row, pool, {key: total for key, total in keys.items() if total > 0})
            session.commit()
            return row.to_model(include_metadata=True, include_resources=True)

    def delete_resource_pool(self, resource_pool_id: UUID) -> None:
        with self._session() as session, _zenml_errors():
            row = self._pool(session, resource_pool_id)
            self.pools.delete_pool(row.name)
            session.delete(row)
            session.commit()

    # --- Policies

    def create_resource_pool_subject_policy(
        self, policy: ResourcePoolSubjectPolicyRequest
    ) -> ResourcePoolSubjectPolicyResponse:
        with self._session() as session, _zenml_errors():
            self.store._set_request_user_id(request_model=policy, session=session)
            pool = self._pool(session, policy.pool_id)
            component = _get(session, StackComponentSchema, policy.component_id, "component")
            names = (component.type, component.name)
            made = self.pools.attach_policy(pool.name, names, policy.priority, policy.reserved, policy.limit)
            row = _born(ResourcePoolSubjectPolicySchema.from_request(policy), made)
            session.add(row)
            session.flush()
            _set_policy_amounts(session, row, policy.reserved, policy.limit)
            session.commit()
            session.refresh(row)
            return row.to_model(include_metadata=True, include_resources=True)

    def get_resource_pool_subject_policy(
        self, policy_id: UUID, hydrate: bool = True
    ) -> ResourcePoolSubjectPolicyResponse:
        with self._session() as session:
            return self._policy(session, policy_id).to_model(include_metadata=hydrate, include_resources=True)

    def list_resource_pool_subject_policies(
        self, filter_model: ResourcePoolSubjectPolicyFilter, hydrate: bool = False
    ) -> Page[ResourcePoolSubjectPolicyResponse]:
        with self._session() as session:
            return self._page(session, ResourcePoolSubjectPolicySchema, filter_model, hydrate)

    def update_resource_pool_subject_policy(
        self, policy_id: UUID, update: ResourcePoolSubjectPolicyUpdate
    ) -> ResourcePoolSubjectPolicyResponse:
        with self._session() as session, _zenml_errors():
            row = self._policy(session, policy_id)
            policy = self.pools.update_policy(
                row.pool.name, (row.component.type, row.component.name), update.priority, update.reserved, update.limit
            )
            row.update(update)
            row.updated = mapping.lifetime_of(policy).get("updated", row.updated)
            reserved = {one.key: one.reserved for one in row.resources} if update.reserved is None else update.reserved
            limits = {one.key: one.limit for one in row.resources if one.limit is not None}
            _set_policy_amounts(session, row, reserved, limits if update.limit is None else update.limit)
            session.commit()
            session.refresh(row)
            return row.to_model(include_metadata=True, include_resources=True)

    def delete_resource_pool_subject_policy(self, policy_id: UUID) -> None:
        with self._session() as session, _zenml_errors():
            row = self._policy(session, policy_id)
            self.pools.detach_policy(row.pool.name, (row.component.type, row.component.name))
            session.delete(row)
            session.commit()

    # --- Requests

    def create_resource_request(
        self, session: Session, resource_request: ResourceRequestRequest
    ) -> Optional[ResourceRequestResponse]:
        component = _get(session, StackComponentSchema, resource_request.component_id, "component")
        step_run = _get(session, StepRunSchema, resource_request.step_run_id, "step run")
        with _zenml_errors():
            request = self.pools.create_request(
                component=mapping.component_name(component.type, component.name),
                step_run_id=str(step_run.id),
                step_name=step_run.name,
                pipeline_run_id=str(step_run.pipeline_run_id),
                resources=resource_request.requested_resources,
                preemptible=resource_request.preemptible,
            )
        if request is None:
            return None
        row = ResourceRequestSchema.from_request(resource_request)
        row.id = UUID(request["id"])
        session.add(row)
        session.flush()
        for key, amount in resource_request.requested_resources.items():
            session.add(ResourceRequestResourceSchema(request_id=row.id, key=key, amount=amount))
        self._mirror_request(session, row, request)
        session.commit()
        session.refresh(row)
        return row.to_model(include_metadata=True, include_resources=True)

    def get_resource_request(self, resource_request_id: UUID, hydrate: bool = True) -> ResourceRequestResponse:
        with self._session() as session:
            row = _get(session, ResourceRequestSchema, resource_request_id, "resource request")
            if row.status in mapping.LIVE:
                has_started = row.step_run is None or row.step_run.status != "queued"
                try:
                    self._mirror_request(session, row, self.pools.get_request(str(row.id), has_started))
                except berth.NotFound:
                    row.status, row.status_reason = "cancelled", "it was deleted in Berth"
                except berth.Unavailable as error:
                    logger.warning("Berth does not answer; the last known status is shown: %s", error)
                session.commit()
                session.refresh(row)
            return row.to_model(include_metadata=hydrate, include_resources=True)

    def list_resource_requests(
        self, filter_model: ResourceRequestFilter, hydrate: bool = False
    ) -> Page[ResourceRequestResponse]:
        with self._session() as session:
            return self._page(session, ResourceRequestSchema, filter_model, hydrate)

    def delete_resource_request(self, resource_request_id: UUID) -> None:
        with self._session() as session, _zenml_errors():
            row = _get(session, ResourceRequestSchema, resource_request_id, "resource request")
            try:
                self.pools.delete_request(str(row.id))
            except berth.NotFound:
                pass  # Berth keeps ended requests for a while only.
            session.delete(row)
            session.commit()

    def release_step_run_resources(self, session: Session, step_run_id: UUID) -> None:
        """Never fails because of Berth: what is not reported now, the keeper reports (its invariant 2)."""
        query = select(ResourceRequestSchema).where(ResourceRequestSchema.step_run_id == step_run_id)
        row = session.exec(query).first()
        if row is None or row.status not in mapping.LIVE:
            return
        step_run = session.get(StepRunSchema, step_run_id)
        try:
            request = self.pools.release(str(row.id), step_run.status if step_run else "failed")
        except berth.NotFound:
            row.status, row.status_reason = "cancelled", "it was deleted in Berth"
        except berth.BerthError as error:
            logger.warning("The end of step run %s is reported to Berth later: %s", step_run_id, error)
            return
        else:
            self._mirror_request(session, row, request)
        session.commit()

    # --- The mirror

    def _session(self) -> Session:
        return Session(self.store.engine)

    def _pool(self, session: Session, pool_id: UUID) -> ResourcePoolSchema:
        return _get(session, ResourcePoolSchema, pool_id, "resource pool")

    def _policy(self, session: Session, policy_id: UUID) -> ResourcePoolSubjectPolicySchema:
        return _get(session, ResourcePoolSubjectPolicySchema, policy_id, "resource pool subject policy")

    def _page(self, session: Session, table: Any, filter_model: Any, hydrate: bool) -> Any:
        return self.store.filter_and_paginate(
            session=session,
            query=select(table),
            table=table,
            filter_model=filter_model,
            hydrate=hydrate,
            apply_query_options_from_schema=True,
        )

    def _mirror_pool(
        self,
        session: Session,
        row: ResourcePoolSchema,
        pool: Mapping[str, Any],
        capacity: Optional[Mapping[str, int]] = None,
    ) -> None:
        """`capacity` has ZenML's names of the keys, where Berth's may differ."""
        row.updated = mapping.lifetime_of(pool).get("updated", row.updated)
        known = {one.key: one for one in row.resources}
        names = {mapping.resource_key(key): key for key in [*known, *(capacity or {})]}
        wanted = {names.get(key, key): total for key, total in pool["capacity"].items()}
        usage = mapping.usage_of(pool, list(wanted))
        for key in set(known) - set(wanted):
            session.delete(known[key])
        for key, total in wanted.items():
            one = known.get(key) or ResourcePoolResourceSchema(pool_id=row.id, key=key, total=total)
            one.total, one.occupied = total, usage[key]
            session.add(one)
        session.flush()
        session.refresh(row)

    def _mirror_all_pools(self, session: Session) -> None:
        """Pools that were made in Berth itself get a row, too."""
        rows = {mapping.pool_name(row.name): row for row in session.exec(select(ResourcePoolSchema)).all()}
        for pool in self.pools.list_pools():
            row = rows.get(pool["name"])
            if row is None:
                row = _born(ResourcePoolSchema(name=pool["name"], description=pool["description"] or None), pool)
                session.add(row)
                session.flush()
            self._mirror_pool(session, row, pool)

    def _mirror_queue(self, session: Session, row: ResourcePoolSchema) -> None:
        for item in list(row.queue_items):
            session.delete(item)
        session.flush()
        for waiting in self.pools.queued_requests(row.name):
            request = session.get(ResourceRequestSchema, UUID(waiting["id"]))
            if request is None:
                continue  # Not ZenML's.
            priority = int(waiting.get("priority") or self._priority(session, row, request) or 0)
            session.add(
                ResourcePoolQueueSchema(
                    pool_id=row.id, request_id=request.id, priority=priority, request_created=request.created
                )
            )
        session.flush()
        session.refresh(row)

    def _priority(self, session: Session, pool: ResourcePoolSchema, request: ResourceRequestSchema) -> Optional[int]:
        query = select(ResourcePoolSubjectPolicySchema).where(
            ResourcePoolSubjectPolicySchema.pool_id == pool.id,
            ResourcePoolSubjectPolicySchema.component_id == request.component_id,
        )
        policy = session.exec(query).first()
        return policy.priority if policy else None

    def _active(self, session: Session, row: ResourcePoolSchema) -> List[ResourcePoolAllocation]:
        found = []
        for running in self.pools.active_requests(row.name):
            request = session.get(ResourceRequestSchema, UUID(running["id"]))
            if request is None:
                continue
            found.append(
                ResourcePoolAllocation(
                    request=request.to_model(include_metadata=True, include_resources=True),
                    priority=self._priority(session, row, request),
                    allocated_at=mapping.time_of(running["started_at"]),
                )
            )
        return found

    def _queued(self, session: Session, row: ResourcePoolSchema) -> List[ResourcePoolQueueItem]:
        return [
            ResourcePoolQueueItem(
                request=item.request.to_model(include_metadata=True, include_resources=True), priority=item.priority
            )
            for item in row.queue_items
        ]

    def _mirror_request(self, session: Session, row: ResourceRequestSchema, request: Mapping[str, Any]) -> None:
        row.status = mapping.status_of(request)
        row.status_reason = mapping.status_reason(request)
        initiator = mapping.preempted_for(request)
        if initiator and session.get(ResourceRequestSchema, UUID(initiator)) is not None:
            row.preemption_initiated_by_id = UUID(initiator)
        row.updated = _now()
        session.add(row)
        if request.get("pool") and request.get("started_at"):
            self._mirror_allocation(session, row, request)

    def _mirror_allocation(self, session: Session, row: ResourceRequestSchema, request: Mapping[str, Any]) -> None:
        query = select(ResourcePoolAllocationSchema).where(ResourcePoolAllocationSchema.request_id == row.id)
        allocation = session.exec(query).first()
        if allocation is None:
            pools = session.exec(select(ResourcePoolSchema)).all()
            pool = next((one for one in pools if mapping.pool_name(one.name) == request["pool"]), None)
            if pool is None:
                return
            allocation = ResourcePoolAllocationSchema(
                pool_id=pool.id, request_id=row.id, allocated_at=mapping.time_of(request["started_at"])
            )
        if request.get("ended_at") and allocation.released_at is None:
            allocation.released_at = mapping.time_of(request["ended_at"])
        session.add(allocation)


class RowBook:
    """The keeper's view of ZenML's database."""

    def __init__(self, resource_pools: BerthResourcePools) -> None:
        self._resource_pools = resource_pools

    def live(self) -> Iterable[Entry]:
        with self._resource_pools._session() as session:
            query = select(ResourceRequestSchema).where(ResourceRequestSchema.status.in_(mapping.LIVE))  # type: ignore[attr-defined]
            return [_entry(row) for row in session.exec(query).all()]

    def mirror(self, request_id: str, request: Mapping[str, Any]) -> None:
        with self._row(request_id) as (session, row):
            self._resource_pools._mirror_request(session, row, request)

    def forget(self, request_id: str) -> None:
        with self._row(request_id) as (_, row):
            row.status, row.status_reason = "cancelled", "it was deleted in Berth"

    def stop_step(self, request_id: str) -> None:
        with self._row(request_id) as (session, row):
            if row.step_run is not None and row.step_run.status in mapping.STOPPABLE_STEPS:
                row.step_run.status = "cancelling"
                session.add(row.step_run)

    @contextmanager
    def _row(self, request_id: str) -> Iterator[Tuple[Session, Any]]:
        with self._resource_pools._session() as session:
            row = session.get(ResourceRequestSchema, UUID(request_id))
            if row is not None:
                yield session, row
                session.add(row)
                session.commit()
            else:
                yield session, _Gone()


class _Gone:
    """Deleted meanwhile: what is written to it goes nowhere."""

    step_run = None


def _entry(row: ResourceRequestSchema) -> Entry:
    step_run = row.step_run
    heartbeat = step_run.latest_heartbeat if step_run is not None else None
    silent = None if heartbeat is None else (_now() - heartbeat.replace(tzinfo=None)).total_seconds()
    return Entry(str(row.id), row.status, step_run.status if step_run is not None else None, silent)


def _set_policy_amounts(
    session: Session,
    row: ResourcePoolSubjectPolicySchema,
    reserved: Optional[Mapping[str, int]],
    limit: Optional[Mapping[str, int]],
) -> None:
    known = {one.key: one for one in row.resources}
    wanted = {*(reserved or {}), *(limit or {})}
    for key in set(known) - wanted:
        session.delete(known[key])
    for key in wanted:
        one = known.get(key) or ResourcePoolSubjectPolicyResourceSchema(policy_id=row.id, key=key)
        one.reserved, one.limit = (reserved or {}).get(key, 0), (limit or {}).get(key)
        session.add(one)


def _born(row: Any, thing: Mapping[str, Any]) -> Any:
    """A new row with the id and the times that Berth gave the thing."""
    for column, value in mapping.lifetime_of(thing).items():
        setattr(row, column, value)
    return row


def _get(session: Session, table: Any, row_id: Any, kind: str) -> Any:
    row = session.get(table, row_id)
    if row is None:
        raise KeyError(f"There is no {kind} with id {row_id}.")
    return row


@contextmanager
def _zenml_errors() -> Iterator[None]:
    """Berth's errors as the exceptions that ZenML turns into answers."""
    try:
        yield
    except berth.NotFound as error:
        raise KeyError(str(error)) from error
    except berth.Conflict as error:
        if error.code in ("name_taken", "policy_exists"):
            raise EntityExistsError(str(error)) from error
        raise IllegalOperationError(str(error)) from error
    except (berth.Forbidden, berth.Unauthenticated) as error:
        raise IllegalOperationError(str(error)) from error
    except berth.Unavailable as error:
        raise RuntimeError(f"Berth does not answer: {error}") from error
    except berth.BerthError as error:
        raise ValueError(str(error)) from error


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(tzinfo=None)
