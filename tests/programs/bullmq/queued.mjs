// `queued.mjs enqueue N` adds N jobs, `queued.mjs audit N` tells, as JSON, what BullMQ says became of them.
import { Job, Queue } from 'bullmq';
import { connection } from './connection.mjs';

const [doing, count] = [process.argv[2], Number(process.argv[3])];
const queue = new Queue('marks', { connection: connection(0) });
queue.on('error', (error) => console.error(error.message));
const names = Array.from({ length: count }, (_, i) => `job-${String(i).padStart(5, '0')}`);

// False where the disks or the processors were too busy with something else for an answer in time.
async function isAdded(batch) {
  try {
    await queue.addBulk(batch);
    return true;
  } catch (error) {
    if (!/^(UNKNOWN|CLUSTERDOWN) /.test(error.message)) throw error;
    console.error(error.message);
    return false;
  }
}

if (doing === 'enqueue') {
  // A job whose identifier is there already is not added again, so a batch may be sent once more.
  for (let start = 0; start < count; start += 100) {
    const batch = names.slice(start, start + 100).map((name) => ({ name: 'mark', data: { name }, opts: { jobId: name } }));
    while (!(await isAdded(batch))) {}
  }
} else {
  const unknown = [];
  const unfinished = [];
  const repeated = {};
  for (const name of names) {
    const job = await Job.fromId(queue, name);
    if (!job) unknown.push(name);
    else {
      if (!job.finishedOn || job.failedReason) unfinished.push(name);
      if (job.stalledCounter) repeated[name] = job.stalledCounter;
    }
  }
  const { waiting, active, failed } = await queue.getJobCounts('waiting', 'active', 'failed');
  console.log(JSON.stringify({ waiting, started: active, failed, unknown, unfinished, repeated }));
}
process.exit(0);
