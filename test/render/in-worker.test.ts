import test from 'ava';
import {renderInWorker} from '../../src/render/render-in-worker.ts';
import {input, variant} from './inputs.ts';

test('a render in a thread of its own is a render', async t => {
	const job = {
		variant: variant({subject: 'Hi {{ name }}', html: '<p>{{ name }}</p>'}),
		input: input({name: 'Zoë <b>'}),
	};
	t.deepEqual(await renderInWorker(job), {ok: true, subject: 'Hi Zoë <b>', html: '<p>Zoë &lt;b&gt;</p>', text: '\n'});
});

test('a render that ends neither by itself nor by its limits is ended', async t => {
	const html = '{% for a in n %}{% assign b = n | sort | reverse | uniq %}{% endfor %}';
	const n = Array.from({length: 3000}, (_, index) => index);
	const limit = await renderInWorker({variant: variant({html}), input: input({n})}, 20);
	t.deepEqual(limit, {ok: false, reason: 'render_limit', message: 'rendering: takes too long'});
});
