import {Parser} from 'htmlparser2';

/** An XML element. Reports do not use attributes. */
export type XmlElement = {
	/** Without its namespace prefix, in lower case. */
	readonly name: string;
	text: string;
	readonly children: XmlElement[];
};

/** The bytes cannot be read as XML; the message is a clause for people. */
export class XmlProblem extends Error {}

const deepest = 12;
/** Elements that are held at once. */
const maxElements = 5000;
const maxTextLength = 2048;
/** Some reporters put an `xs:schema` before the document, or around it without closing it. */
const wrapper = 'schema';
/** The only element in a schema that is not part of it. */
const wrapped = 'feedback';

/**
 * Parses a document. Elements named `each` go to `take` and are then discarded, so that memory does not grow with their
 * number. (A parser that built the whole tree took 8 seconds for 10 MB, and ran out of memory on 10 MB of empty
 * elements.) A document type is refused, since no report has one, so entities are never expanded or fetched.
 *
 * @throws XmlFault
 */
export function readXml(text: string, each: string, take: (element: XmlElement) => void): XmlElement {
	const open: XmlElement[] = [];
	let root: XmlElement | undefined;
	let elementCount = 0;
	const parser = new Parser(
		{
			onopentagname(spelled) {
				const element = {name: spelled.slice(spelled.indexOf(':') + 1), text: '', children: []};
				elementCount++;
				if (open.length >= deepest || elementCount > maxElements) {
					throw new XmlProblem(
						open.length >= deepest ? 'its elements are nested too deeply' : 'it has too many elements',
					);
				}
				if (element.name !== each) {
					open.at(-1)?.children.push(element);
				}
				// A schema and its contents are the root only until the document starts.
				const isInSchema = open.some(({name}) => name === wrapper);
				const isDocument = element.name === wrapped || (element.name !== wrapper && !isInSchema);
				if (root === undefined || (root.name === wrapper && isDocument)) {
					root = element;
				}
				open.push(element);
			},
			ontext(said) {
				const into = open.at(-1);
				if (into !== undefined && into.text.length < maxTextLength) {
					into.text += said.slice(0, maxTextLength);
				}
			},
			onclosetag(_name, isImplied) {
				const ended = open.pop() as XmlElement;
				if (isImplied && ended.name !== wrapper && !isEmptyTag()) {
					throw new XmlProblem('it is truncated, or its tags do not match');
				}
				if (ended.name === each && ended !== root) {
					take(ended);
					elementCount = 0;
				}
			},
			onprocessinginstruction(name) {
				if (name.startsWith('!')) {
					throw new XmlProblem('it has a document type, which is not allowed');
				}
			},
		},
		{xmlMode: true, lowerCaseTags: true},
	);
	/** The end of `<a/>` is implied, too. */
	const isEmptyTag = () => text.charCodeAt(parser.endIndex - 1) === 0x2f;
	parser.end(text);
	if (root === undefined) {
		throw new XmlProblem('it is not XML');
	}
	return root;
}

/** Returns the first element at a path of names in lower case. */
export function elementAt(element: XmlElement | undefined, ...path: readonly string[]): XmlElement | undefined {
	return path.reduce<XmlElement | undefined>((at, name) => at?.children.find(child => child.name === name), element);
}

/** Returns the text of an element, or an empty string if it is missing. */
export function textAt(element: XmlElement | undefined, ...path: readonly string[]): string {
	return elementAt(element, ...path)?.text.trim() ?? '';
}
