import test from 'ava';
import {renderInWorker} from '../../../src/compose/render/in-worker.ts';
import {input, variant} from './inputs.ts';

test('renders in a separate thread', async t => {
	const job = {
		variant: variant({subject: 'Hi {{ name }}', html: '<p>{{ name }}</p>'}),
		input: input({name: 'Zoë <b>'}),
	};
	t.deepEqual(await renderInWorker(job), {ok: true, subject: 'Hi Zoë <b>', html: '<p>Zoë &lt;b&gt;</p>', text: '\n'});
});

test('stops a render that exceeds its time limit', async t => {
	const html = '{% for a in n %}{% assign b = n | sort | reverse | uniq %}{% endfor %}';
	const n = Array.from({length: 3000}, (_, index) => index);
	const limit = await renderInWorker({variant: variant({html}), input: input({n})}, 20);
	t.deepEqual(limit, {ok: false, reason: 'render_limit', message: 'rendering: takes too long'});
});

test('does not count time without CPU against the limit', async t => {
	let [now, looks] = [0, 0];
	const monotonic = () => {
		looks += now === 200 ? 1 : 0;
		return now;
	};
	// Time passes once the thread has begun to load, and once it has begun to work. The work stays far below the limit
	// of its own thread.
	const cpu = () => {
		now = Math.min(now + 100, 200);
		return 0;
	};
	const html = '{{ text | split: "" | sort_natural | first }}';
	const job = {variant: variant({html}), input: input({text: 'zyxéÄ'.repeat(6000)})};
	// Where this thread itself is held up, a render may end before the first look at the clock.
	while (looks === 0) {
		now = 0;
		t.like(await renderInWorker(job, 20, {clock: {monotonic}, cpu}), {ok: true});
	}
});

test.serial('a render is not affected by earlier ones, whether their thread was stopped or reused', async t => {
	const endless = {
		variant: variant({html: '{% for a in n %}{% assign b = n | sort | reverse | uniq %}{% endfor %}'}),
	};
	const rows = Array.from({length: 3000}, (_, index) => index);
	for (let n = 0; n < 3; n++) {
		const good = await renderInWorker({variant: variant({html: `<p>${n}</p>`}), input: input({})});
		t.like(good, {ok: true, html: `<p>${n}</p>`});
		if (n % 2 === 0) {
			continue;
		}
		t.like(await renderInWorker({...endless, input: input({n: rows})}, 20), {
			ok: false,
			reason: 'render_limit',
		});
	}
});
