"""`queued.py enqueue N` puts N jobs into the queue; `queued.py audit N` tells, as JSON, what RQ says became of them."""

import json
import os
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry as ClientRetry
from rq import Queue, Retry
from rq.intermediate_queue import IntermediateQueue
from rq.job import Job

from work import mark

RETRIES = 3


def main():
    """Does one of the two."""
    doing, count = sys.argv[1], int(sys.argv[2])
    host, port = os.environ["DICTUM_HOSTS"].split(",")[0].rsplit(":", 1)
    # Without the client's own repetitions: a batch that is sent twice would be two batches.
    retry = ClientRetry(NoBackoff(), 0) if doing == "enqueue" else None
    connection = redis.Redis(host=host, port=int(port), **({"retry": retry} if retry else {}))
    queue = Queue("marks", connection=connection)
    names = [f"job-{i:05}" for i in range(count)]
    if doing == "enqueue":
        for start in range(0, count, 500):
            queue.enqueue_many([
                Queue.prepare_data(mark, (name,), job_id=name, timeout=60, result_ttl=3600, retry=Retry(max=RETRIES))
                for name in names[start:start + 500]])
        return
    jobs = Job.fetch_many(names, connection=connection)
    print(json.dumps({
        "waiting": queue.count,
        "intermediate": len(IntermediateQueue(queue.key, connection).get_job_ids()),
        "started": queue.started_job_registry.get_job_count(cleanup=False),
        "failed": queue.failed_job_registry.get_job_count(cleanup=False),
        "unknown": [name for name, job in zip(names, jobs) if job is None],
        "unfinished": [job.id for job in jobs if job and not job.is_finished],
        "repeated": {job.id: RETRIES - job.retries_left for job in jobs if job and job.retries_left < RETRIES},
    }))


main()
