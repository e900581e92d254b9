import test from 'ava';
import {type Evidence, suppresses} from '../../../src/mail/bounce.ts';
import type {BounceCategory} from '../../../src/mail/outcome.ts';
import {classify} from '../../helpers/classify.ts';

type Row = readonly [codes: string, category: BounceCategory, host?: string];

/** The categories of enhanced codes where the text adds nothing. */
const rows: readonly Row[] = [
	['5.1.1 5.1.3 5.1.4', 'unknown_user'],
	['5.1.6', 'moved'],
	['5.1.2 5.1.10', 'unknown_domain'],
	['5.1.10', 'unknown_user', 'am6eur05.prod.outlook.com'],
	['5.1.0 5.2.0 5.2.1 5.4.1', 'undetermined'],
	['5.1.7 5.1.8 5.7.27', 'sender'],
	['5.2.2 4.2.2', 'mailbox_full'],
	['5.2.3 5.3.4', 'too_big'],
	['5.3.0 5.3.1 5.3.2 4.3.0 4.3.1 4.3.2 4.3.5', 'system'],
	['5.4.0 5.4.4 5.4.6 5.4.14 5.4.310 5.4.316 5.4.317 4.4.1 4.4.2 4.4.4', 'network'],
	['5.4.7 4.4.7', 'expired'],
	['5.5.1 5.5.2 5.5.4 5.6.0 5.6.7', 'protocol'],
	['5.5.3 4.5.3', 'rate'],
	['5.7.0 5.7.1', 'policy'],
	['5.7.13 5.7.17 5.7.18', 'disabled'],
	['5.7.5 5.7.7 5.7.9 5.7.20 5.7.21 5.7.22 5.7.23 5.7.24 5.7.25 5.7.26 5.7.29 5.7.30 5.7.509 5.7.515 5.7.57', 'auth'],
	['4.7.23 4.7.25 4.7.26 4.7.27 4.7.29 4.7.30 4.7.32 4.7.40', 'auth'],
	['5.7.28 4.7.28 5.7.38 4.7.650 5.7.511 5.7.606 5.7.620 5.7.649 5.7.705 5.7.750', 'block'],
	['5.7.105 5.7.124 5.7.129 5.7.133 5.7.193 5.7.520', 'block'],
];

const nothing: Evidence = {phase: null, code: null, enhanced: null, status: null, text: '', host: null};

for (const [codes, category, host = null] of rows) {
	for (const enhanced of codes.split(' ')) {
		test(`${enhanced} alone${host === null ? '' : ` from ${host}`}: ${category}`, t => {
			const code = enhanced.startsWith('4') ? 450 : 550;
			const inSession = classify({...nothing, phase: 'rcpt', code, enhanced, text: 'no', host});
			const inReport = classify({...nothing, status: enhanced, host});
			t.like(inSession, {category, suppresses: suppresses(category)});
			t.like(inReport, {category, suppresses: suppresses(category)});
		});
	}
}
