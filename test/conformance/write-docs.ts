import {writeFileSync} from 'node:fs';
import {conformancePage} from '../helpers/conformance-page.ts';

writeFileSync('docs/reference/conformance.md', conformancePage());
