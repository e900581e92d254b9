import process from 'node:process';
import {runCluster} from './cluster.ts';

// Prints what the simulation shows: `node dist/test/sim/report.js [seconds] [seed]`.

const [seconds = 60, seed = 1] = process.argv.slice(2).map(Number);
const began = performance.now();
const report = await runCluster({seed, nodes: 20, destinations: 1000, mailsPerSecond: 5000, seconds});
process.stdout.write(`${JSON.stringify({...report, broken: report.broken.length}, null, '\t')}\n`);
process.stdout.write(`${report.broken.slice(0, 10).join('\n')}\n`);
process.stdout.write(`took ${Math.round((performance.now() - began) / 1000)} s\n`);
