//! Reads the reports of `playgate lab check` and `playgate lab run certification`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::appliance::err;
use crate::support::process::InTime as _;

/// Returns the ids of the rules with a result.
pub fn with_result<'a>(report: &'a Value, result: &str) -> Vec<&'a str> {
    let rules = report["rules"].as_array().unwrap().iter();
    let wanted = rules.filter(|rule| rule["result"] == result);
    wanted.map(|rule| rule["id"].as_str().unwrap()).collect()
}

/// Reads a JUnit file with Python's XML parser. Returns the root element, the number of suites (or cases if it is one
/// suite), and the names of the failures.
pub fn junit(file: &Path) -> String {
    const COUNT: &str = "import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
failures = []
for suite in root.iter('testsuite'):
    cases = suite.findall('testcase')
    failed = [case.get('name') for case in cases if case.find('failure') is not None]
    skipped = [case for case in cases if case.find('skipped') is not None]
    assert (int(suite.get('tests')), int(suite.get('failures'))) == (len(cases), len(failed))
    assert int(suite.get('skipped', 0)) == len(skipped)
    failures += failed
print(root.tag, len(root.findall('testsuite') or root.findall('testcase')), *failures)";
    let output = Command::new("python3")
        .args(["-c", COUNT])
        .arg(file)
        .output_in_time();
    assert!(output.status.success(), "{}", err(&output));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
