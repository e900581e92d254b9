import test from 'ava';
import {stripHtml} from '../../../../src/mail/decode.ts';

const cases: ReadonlyArray<readonly [string, string]> = [
	['<p>One</p><p>Two<br>Three</p>', '\nOne\n\nTwo\nThree\n'],
	['<tr><th>To</th><td>neko</td></tr>', '\n To  neko \n'],
	['<style>p {color: red}</style>Hello', 'Hello'],
	['<script>alert("<p>")</script>Hello', 'Hello'],
	['<script>never closed', 'never closed'],
	['a<!-- <p>hidden</p> -->b', 'ab'],
	['&lt;neko@example.org&gt; &amp;&nbsp;&#39;&#x41;&#66;&unknown;', "<neko@example.org> & 'AB&unknown;"],
	['1 < 2 and <neko@example.org>', '1 < 2 and '],
	['<a href="x', ''],
];

for (const [html, text] of cases) {
	test(`stripHtml: ${html}`, t => {
		t.is(stripHtml(html), text);
	});
}
