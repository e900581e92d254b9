import test from 'ava';
import {runCluster} from './cluster.ts';

// The run for the report is longer: `node dist/test/sim/report.js`.
test('many nodes share the connections of many sites, while nodes die and join and sites throttle', async t => {
	t.timeout(300_000);
	const report = await runCluster({seed: 1, nodes: 20, destinations: 1000, mailsPerSecond: 5000, seconds: 20});
	t.log(JSON.stringify({...report, broken: report.broken.length}));
	t.deepEqual(report.broken.slice(0, 3), [], 'never more connections than a site may have');
	t.true(report.atCap > 20, 'and as many where they are needed');
	t.true(report.maxPerMinute > 0 && report.maxPerMinute <= report.perMinute);
	t.deepEqual(report.starved, []);
	t.is(report.backlog, 0, 'nothing is left lying');
	t.true(report.maxWaitMs < 10_000, 'not even where the only node with connections dies');
	t.true(report.least > 0.8 && report.most < 1.2, `work is spread: ${report.least} to ${report.most}`);
});
