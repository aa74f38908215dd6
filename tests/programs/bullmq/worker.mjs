// A worker: each job leaves a line in this worker's file, outside of the database.
import { appendFileSync } from 'node:fs';
import { Worker } from 'bullmq';
import { connection } from './connection.mjs';

const worker = new Worker(
  'marks',
  async (job) => {
    appendFileSync(process.env.MARKS, `${job.id}\n`);
    return job.id;
  },
  { connection: connection(Number(process.env.NODE_INDEX)), concurrency: 10, stalledInterval: 10_000, maxStalledCount: 3 },
);
worker.on('error', (error) => console.error(new Date().toISOString(), error.message));
worker.on('failed', (job, error) => console.error(new Date().toISOString(), 'failed', job?.id, error.message));
